package machine

import (
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// TestARebootIsNoShutdown: the cloud takes a machine without power for one that its guest has shut down. A machine that reboots, or that a
// restarted sandbox has not booted yet, is none.
func TestARebootIsNoShutdown(t *testing.T) {
	w := newFleetEnv(t)
	s := spec(1)
	s.Light = true
	if err := w.fleet.Launch(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.ready("pool000001", s.ID)
	var off atomic.Int32
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-ended:
				return
			default:
			}
			if w.fleet.Power(s.ID) == fleet.Off {
				off.Add(1)
			}
		}
	}()
	for range 5 {
		if err := w.fleet.Restart(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	w.fleet.Close()
	close(ended)
	<-watched
	if seen := off.Load(); seen > 0 {
		t.Errorf("during reboots and the end of the sandbox, the machine was seen off %d times", seen)
	}

	marks := make(chan struct{})
	w.client.PrependReactor("patch", "nodes", func(kubetesting.Action) (bool, runtime.Object, error) {
		<-marks
		return false, nil, nil
	})
	w.client.PrependReactor("update", "nodes", func(kubetesting.Action) (bool, runtime.Object, error) {
		<-marks
		return false, nil, nil
	})
	w.open(nil)
	if got := w.fleet.Power(s.ID); got != fleet.Starting {
		t.Errorf("before its boot in the next sandbox, the machine is %q", got)
	}
	stopped := make(chan error)
	go func() { stopped <- w.fleet.PowerOff(t.Context(), s.ID, true) }()
	close(marks)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if got := w.fleet.Power(s.ID); got != fleet.Off {
		t.Errorf("a machine that was stopped before its boot is %q", got)
	}
}
