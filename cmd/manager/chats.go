package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/agrajag-dev/agrajag/internal/controller"
	"github.com/agrajag-dev/agrajag/internal/diagnose"
	"github.com/agrajag-dev/agrajag/internal/llm"
	"github.com/agrajag-dev/agrajag/internal/probe"
)

// modelTimeout bounds one answer of a model; the deadline of the diagnosis bounds them all.
const modelTimeout = 90 * time.Second

// chats returns the model that diagnoses: the tenant's where its recipe names one, else the operator's, else the
// built-in diagnostician. A tenant's endpoint passes the guard that probes pass; the operator's own is trusted.
func chats(o options, guard probe.Guard, credentials probe.Credentials) controller.Chats {
	trusted := &http.Client{Timeout: modelTimeout}
	guarded := &http.Client{Timeout: modelTimeout, Transport: guard.Transport()}
	return func(ctx context.Context, ai *diagnose.AI) (llm.Chat, error) {
		switch {
		case ai != nil:
			return tenantChat(ctx, *ai, guarded, credentials)
		case o.models == "":
			return llm.Builtin{}, nil
		default:
			key, err := readKey(o.modelKeyFile)
			return llm.NewOpenAI(llm.OpenAIOptions{Endpoint: o.modelEndpoint, APIKey: key, Models: list(o.models), HTTPClient: trusted}), err
		}
	}
}

// tenantChat returns the model of a tenant's recipe. Its key goes only to the endpoint that the key's Secret names.
func tenantChat(ctx context.Context, ai diagnose.AI, client *http.Client, credentials probe.Credentials) (llm.Chat, error) {
	key := ""
	if ai.Credential != "" {
		apiKey, endpoint, err := credentials.Model(ctx, ai.Namespace, ai.Credential)
		if err != nil {
			return nil, err
		}
		if endpoint != ai.Endpoint {
			return nil, fmt.Errorf("%w: Secret %s/%s is for another endpoint than the recipe's: set both to the same",
				probe.ErrCredentialNotAllowed, ai.Namespace, ai.Credential)
		}
		key = apiKey
	}
	return llm.NewOpenAI(llm.OpenAIOptions{Endpoint: ai.Endpoint, APIKey: key, Models: ai.Models, HTTPClient: client}), nil
}

// readKey reads the operator's key anew each time, so that a renewed Secret counts without a restart.
func readKey(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--model-key-file cannot be read, is the Secret mounted? %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
