package testenv

import "go.uber.org/goleak"

// Machinery are the goroutines that the libraries of Kubernetes never end: goleak is to find all others.
func Machinery() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	}
}
