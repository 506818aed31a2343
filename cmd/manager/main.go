// Command manager runs Agrajag: the webhooks that answer error reports, the controllers of its kinds and the
// diagnoses.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func main() {
	if err := start(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// start runs a manager until it is told to stop.
func start(args []string) error {
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	var o options
	o.bind(flags)
	logging := zap.Options{}
	logging.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: settings are flags, see --help", flags.Arg(0))
	}
	if err := o.validate(); err != nil {
		return err
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	config, err := restConfig(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	mgr, err := newManager(config, o)
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
