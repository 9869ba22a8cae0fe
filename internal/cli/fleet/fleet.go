// Package fleet names the clusters of repeated flags, and asks all of them at once. One cluster that does not answer hides no other.
package fleet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/kamino-dev/kamino/internal/cli/exit"
)

// parallel is the number of clusters asked at once.
const parallel = 8

// Flags are the values of --kubeconfig and --context, which name one cluster or several.
type Flags struct{ kubeconfigs, contexts []string }

// Bind adds the flags. A command for one cluster reads the last values.
func (f *Flags) Bind(flags *pflag.FlagSet, kubeconfig, context *string) {
	flags.Var(&repeated{&f.kubeconfigs, kubeconfig}, "kubeconfig",
		"kubeconfig `file` of the cluster (default: KUBECONFIG, ~/.kube/config, or the pod's service account)")
	flags.Var(&repeated{&f.contexts, context}, "context", "`name` of the kubeconfig context (default: the current context)")
}

// repeated is a flag that keeps all values.
type repeated struct {
	all  *[]string
	last *string
}

// Set implements pflag.Value.
func (r *repeated) Set(value string) error {
	*r.all, *r.last = append(*r.all, value), value
	return nil
}

// String implements pflag.Value.
func (r *repeated) String() string { return "" }

// Type implements pflag.Value.
func (r *repeated) Type() string { return "string" }

// Cluster is one cluster of a fleet.
type Cluster struct{ Name, Kubeconfig, Context string }

// Several reports whether the flags name more than one cluster, or a directory.
func (f Flags) Several() bool {
	if len(f.kubeconfigs) == 1 {
		at, err := os.Stat(f.kubeconfigs[0])
		return err == nil && at.IsDir() || len(f.contexts) > 1
	}
	return len(f.kubeconfigs) > 1 || len(f.contexts) > 1
}

// CheckOne refuses flags of several clusters for a command that works on one.
func (f Flags) CheckOne() error {
	if f.Several() {
		return exit.Usagef("this command works on one cluster: pass one --kubeconfig with a file, and one --context")
	}
	return nil
}

// Clusters returns the clusters: all contexts of one kubeconfig, or the current contexts of several kubeconfigs. A directory stands for its
// files.
func (f Flags) Clusters() (all []Cluster, err error) {
	if len(f.contexts) > 0 {
		if len(f.kubeconfigs) > 1 {
			return nil, exit.Usagef("pass several of --kubeconfig or of --context, not both: each kubeconfig then means its current context")
		}
		for _, name := range f.contexts {
			all = append(all, Cluster{Name: name, Kubeconfig: strings.Join(f.kubeconfigs, ""), Context: name})
		}
		return distinct(all)
	}
	for _, path := range f.kubeconfigs {
		files := []string{path}
		if at, err := os.Stat(path); err == nil && at.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "[^.]*")); err != nil || len(files) == 0 {
				return nil, exit.Usagef("--kubeconfig: directory %s has no files", path)
			}
		}
		for _, file := range files {
			name := filepath.Base(file)
			all = append(all, Cluster{Name: strings.TrimSuffix(name, filepath.Ext(name)), Kubeconfig: file})
		}
	}
	return distinct(all)
}

// distinct refuses two clusters with one name, whose rows would look alike.
func distinct(all []Cluster) ([]Cluster, error) {
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.Name] {
			return nil, exit.Usagef("two of the clusters are called %s: give each context or file a name of its own", c.Name)
		}
		seen[c.Name] = true
	}
	return all, nil
}

// Answer is what a cluster answered, as far as it did.
type Answer[T any] struct {
	Cluster Cluster
	Value   T
	Err     error
}

// Ask asks all clusters, several at a time, and returns the answers in the order of the clusters. What ask says, Ask writes to out with the
// cluster's name, after the answer.
func Ask[T any](ctx context.Context, clusters []Cluster, out io.Writer, ask func(ctx context.Context, c Cluster, says io.Writer) (T, error)) []Answer[T] {
	answers := make([]Answer[T], len(clusters))
	var (
		wait    sync.WaitGroup
		writing sync.Mutex
	)
	slots := make(chan struct{}, parallel)
	for i, c := range clusters {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var says bytes.Buffer
			answers[i].Cluster = c
			answers[i].Value, answers[i].Err = ask(ctx, c, &says)
			writing.Lock()
			defer writing.Unlock()
			for line := range strings.Lines(says.String()) {
				_, _ = fmt.Fprintf(out, "%s: %s\n", c.Name, strings.TrimSuffix(line, "\n"))
			}
		})
	}
	wait.Wait()
	return answers
}
