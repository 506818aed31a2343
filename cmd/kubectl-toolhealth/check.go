package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
)

// How long what people type may be, in characters, as the schemas have it (api/v1alpha1): there the API server's answer is
// hard to read.
const (
	maxToolName  = 128
	maxPerson    = 256 // a user or a session
	maxPinReason = 200
	maxMarkNote  = 500
)

// oneTool refuses anything but the name of one tool.
func oneTool(c *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("name one tool; see '%s --help'", c.CommandPath())
	}
	return within("the name of a tool", args[0], maxToolName)
}

// within refuses a text that is too long.
func within(what, text string, limit int) error {
	if n := utf8.RuneCountInString(text); n > limit {
		return fmt.Errorf("%s may have at most %d characters, not %d", what, limit, n)
	}
	return nil
}

// people refuses names of users and sessions that are too long.
func people(user, session string) error {
	return errors.Join(within("a user's name", user, maxPerson), within("a session's name", session, maxPerson))
}

// parseScope reads a scope.
func parseScope(value string) (v1alpha1.Scope, error) {
	scope := v1alpha1.Scope(strings.ToUpper(value))
	if scope.Width() < 0 {
		return "", fmt.Errorf("--scope %s is not known; use SESSION, USER, PROJECT, TENANT or GLOBAL", plain(value, maxCell))
	}
	return scope, nil
}

// unreached says why no cluster was reached, and how one is chosen.
func unreached(err error, context string) error {
	switch {
	case clientcmd.IsEmptyConfig(err):
		return errors.New("no cluster is chosen: name a kubeconfig by --kubeconfig or KUBECONFIG, and one of its contexts by --context")
	case clientcmd.IsContextNotFound(err):
		return fmt.Errorf("there is no context %s in the kubeconfig; 'kubectl config get-contexts' lists them", plain(context, maxCell))
	default:
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
}

// refused says what lets people do what they were refused; empty: that is not known.
func refused(command *cobra.Command, err error) string {
	role := command.Annotations[clusterAnnotation]
	if role == "" || !apierrors.IsForbidden(err) {
		return ""
	}
	// client-go, which asks for the API's resources first, does not read why it may not.
	as := command.Flags().Lookup("as")
	if said := err.Error(); as.Changed && (strings.HasSuffix(said, "unknown") || strings.Contains(said, "cannot impersonate")) {
		return "; you may not act as " + plain(as.Value.String(), maxCell) + ": --as needs the verb impersonate on users, --as-group on groups"
	}
	return "; the role " + role + " lets you: somebody who may must bind it to you in that namespace"
}
