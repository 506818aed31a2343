package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Pause stops a process of this environment, kube-apiserver or etcd, as if its machine were gone: connections stay and
// nothing is answered. The caller resumes it. It needs /proc, and finds no process elsewhere.
func (e *Env) Pause(program string) (resume func() error, err error) {
	pid, err := childOf(os.Getpid(), program)
	if err != nil {
		return nil, err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("pause %s: %w", program, err)
	}
	return func() error { return syscall.Kill(pid, syscall.SIGCONT) }, nil
}

// childOf returns the one child of a process that runs a program.
func childOf(parent int, program string) (int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	found := 0
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // It has ended.
		}
		// "pid (name) state parent ...": the kernel cuts names to 15 bytes.
		name, rest, _ := bytes.Cut(data[bytes.IndexByte(data, '(')+1:], []byte(") "))
		fields := bytes.Fields(rest)
		if string(name) != program[:min(len(program), 15)] || len(fields) < 2 || string(fields[1]) != strconv.Itoa(parent) {
			continue
		}
		if found != 0 {
			return 0, fmt.Errorf("there are several %s: stop what else was started", program)
		}
		if found, err = strconv.Atoi(filepath.Base(filepath.Dir(stat))); err != nil {
			return 0, err
		}
	}
	if found == 0 {
		return 0, errors.New(program + " does not run here")
	}
	return found, nil
}
