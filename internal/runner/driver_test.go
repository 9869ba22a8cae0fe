package runner

import (
	"context"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/capture"
)

// scriptedEngine is an engine with scripted results of passes, and then done.
type scriptedEngine struct {
	Engine
	ends []error
}

func (s *scriptedEngine) Pass(context.Context, string) (capture.Result, error) {
	if len(s.ends) == 0 {
		return capture.Result{Done: true}, nil
	}
	err := s.ends[0]
	s.ends = s.ends[1:]
	return capture.Result{}, err
}

// TestConcurrentWriteIsRetried: the next pass reads the write. A second conflict in a row is reported, like any
// other error.
func TestConcurrentWriteIsRetried(t *testing.T) {
	crossed := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", nil)
	other := apierrors.NewInternalError(context.DeadlineExceeded)
	for name, test := range map[string]struct{ ends, shown []error }{
		"once":             {[]error{crossed, nil}, nil},
		"now and then":     {[]error{crossed, nil, crossed, nil}, nil},
		"twice in a row":   {[]error{crossed, crossed}, []error{crossed}},
		"another error":    {[]error{other}, []error{other}},
		"behind a trouble": {[]error{other, crossed}, []error{other}},
	} {
		var reported []error
		d := &driver{engine: &scriptedEngine{ends: test.ends}, notify: func(n ProcessName) {
			if n.Trouble != nil {
				reported = append(reported, n.Trouble)
			}
		}}
		if done := d.passes(t.Context(), nil); !done || !slices.Equal(reported, test.shown) {
			t.Errorf("%s: done %t, reported %v, want %v", name, done, reported, test.shown)
		}
	}
}
