// Command demo tells the story of Agrajag on a real API server: it starts the local control plane, the manager and
// two sample tools that can be told to fail, reports errors as an agent runtime would, and shows what kubectl shows.
// It needs no kubectl, no Docker and no API key on the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/internal/testenv"
)

const (
	// namespace is the project in which the story plays.
	namespace = "demo"
	// agent is an agent runtime that reports errors for its users; you is the person who looks.
	agent, you = "agent-runtime", "you"
)

func main() {
	keep := flag.Bool("keep", false, "leave everything running at the end, until interrupted")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1) //nolint:gocritic // exitAfterDefer: nothing is left to be undone, the process ends.
	}
}

// run sets the stage, tells the story and clears up.
func run(ctx context.Context, keep bool) (err error) {
	started := time.Now()
	stage, err := newStage(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.close()) }()
	if err := stage.tell(ctx); err != nil {
		stage.failed = true
		return fmt.Errorf("%w\n(the manager's log is %s)", err, stage.managerLog)
	}
	fmt.Printf("\nThe whole story took %s.\n", time.Since(started).Round(time.Second))
	if keep {
		fmt.Printf("\nEverything keeps running until you press Ctrl-C. In another shell:\n\n"+
			"  export KUBECONFIG=%s PATH=%s:$PATH\n  kubectl get agrajag\n  kubectl toolhealth list\n  kubectl get events\n\n"+
			"and for the programs of docs/integrate.md:\n\n"+
			"  export AGRAJAG_URL=%s AGRAJAG_CA=%s AGRAJAG_PROJECT=%s AGRAJAG_TOKEN_FILE=%s\n"+
			"  kubectl create token %s --audience=%s > $AGRAJAG_TOKEN_FILE\n\n",
			stage.kubeconfig(you), stage.path(), stage.api, stage.caFile(), namespace, filepath.Join(stage.dir, "token"), account, audience)
		<-ctx.Done()
	}
	return nil
}

// stage is all that runs.
type stage struct {
	env *testenv.Env
	dir string
	// api is where the REST API is served.
	api        string
	managerLog string
	tools      *tools
	stops      []func() error
	// failed keeps the directory with the logs.
	failed bool
	// reporter reports as the agent runtime, once it has been needed.
	reporter client.Client
}

// newStage starts the API server, the manager and the sample tools.
func newStage(ctx context.Context) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "agrajag-demo-"); err != nil {
		return s, err
	}
	say("Starting kube-apiserver and etcd with the kinds, roles, policies and webhooks of config/ ...")
	if s.env, err = testenv.Start(testenv.Options{Webhooks: true}); err != nil {
		return s, err
	}
	s.stops = append(s.stops, s.env.Stop)
	if err := s.people(ctx); err != nil {
		return s, err
	}
	say("Starting the manager, as its own service account ...")
	if err := s.startManager(ctx); err != nil {
		return s, err
	}
	say("Starting two tools that can be told to fail: an HTTP API and an MCP server ...")
	return s, s.startTools(ctx)
}

// people creates the project and gives everybody what they need, and no more.
func (s *stage) people(ctx context.Context) error {
	if err := s.env.Namespace(ctx, namespace, ""); err != nil {
		return err
	}
	if err := s.env.ApplyYAML(ctx, accountManifest); err != nil {
		return err
	}
	for _, binding := range []struct{ role, user string }{
		{"agrajag-reporter", agent}, {"agrajag-runtime", agent},
		{"agrajag-viewer", you}, {"agrajag-editor", you}, {"agrajag-admin", you}, {"agrajag-reporter", you}, {"agrajag-runtime", you}, {"event-reader", you},
		{"agrajag-credential-reader", testenv.ManagerUser},
		{"agrajag-reporter", testenv.AccountUser(namespace, account)}, {"agrajag-runtime", testenv.AccountUser(namespace, account)},
		{"token-maker", you},
	} {
		if err := s.env.Bind(ctx, namespace, binding.role, binding.user); err != nil {
			return err
		}
	}
	if err := s.env.Bind(ctx, testenv.OperatorNamespace, "agrajag-viewer", you); err != nil { // For what concerns everybody.
		return err
	}
	for _, user := range []string{agent, you, testenv.ManagerUser} {
		if err := s.env.KubeConfig(user, namespace, s.kubeconfig(user)); err != nil {
			return err
		}
	}
	return nil
}

// path is where kubectl, our plugin and the manager are.
func (s *stage) path() string {
	return s.env.Assets + string(os.PathListSeparator) + filepath.Dir(executable())
}

// executable is this program's own file, beside which those of cmd/ stand.
func executable() string {
	self, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return self
}

// kubeconfig names the file with a user's kubeconfig.
func (s *stage) kubeconfig(user string) string {
	return filepath.Join(s.dir, filepath.Base(user)+".kubeconfig")
}

// startManager runs the manager's own binary, which stands beside this one, and waits until it is ready.
func (s *stage) startManager(ctx context.Context) error {
	s.managerLog = filepath.Join(s.dir, "manager.log")
	logs, err := os.Create(s.managerLog)
	if err != nil {
		return err
	}
	host, port, certDir := s.env.Webhook()
	ready, readyErr := freeAddress()
	api, apiErr := freeAddress()
	if err := errors.Join(readyErr, apiErr, testenv.ServingCert(s.dir, "127.0.0.1")); err != nil {
		return err
	}
	s.api = "https://" + api
	manager := exec.Command(filepath.Join(filepath.Dir(executable()), "manager"), //nolint:gosec // G204: our own binary.
		"--kubeconfig", s.kubeconfig(testenv.ManagerUser), "--webhook-host", host, "--webhook-port", fmt.Sprint(port),
		"--webhook-cert-dir", certDir, "--metrics-bind-address", "0", "--health-probe-bind-address", ready,
		"--api-bind-address", api, "--api-cert-dir", s.dir,
		"--probe-allow", "127.0.0.0/8") // The sample tools listen on this machine.
	manager.Stdout, manager.Stderr = logs, logs
	manager.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo, which stops the manager in turn.
	if err := manager.Start(); err != nil {
		return fmt.Errorf("start the manager: %w", err)
	}
	s.stops = append(s.stops, func() error {
		return errors.Join(manager.Process.Signal(syscall.SIGTERM), manager.Wait(), logs.Close())
	})
	return s.await(ctx, "the manager to be ready (its log is "+s.managerLog+")", func() error {
		response, err := http.Get("http://" + ready + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 4096))
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz answers %s", response.Status)
		}
		return nil
	})
}

// freeAddress returns an address of this machine on which nothing listens.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// await waits until something holds.
func (s *stage) await(ctx context.Context, what string, holds func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// close stops all that runs, last first.
func (s *stage) close() error {
	var problems []error
	for i := len(s.stops) - 1; i >= 0; i-- {
		problems = append(problems, s.stops[i]())
	}
	// What failed is found in the logs; else nothing is left, least of all keys.
	if !s.failed && errors.Join(problems...) == nil {
		problems = append(problems, os.RemoveAll(s.dir))
	}
	return errors.Join(problems...)
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
