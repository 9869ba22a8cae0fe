package conformance

import (
	"path"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// standbyTime is how long entering and leaving standby takes.
const standbyTime = 10 * time.Second

func (w *amazonGroup) lifecycle(id cloud.InstanceID) scalingtypes.LifecycleState {
	w.Helper()
	for _, m := range w.group().Instances {
		if *m.InstanceId == path.Base(string(id)) {
			return m.LifecycleState
		}
	}
	return ""
}

func (w *amazonGroup) settled(id cloud.InstanceID, want scalingtypes.LifecycleState) {
	w.Helper()
	w.until(string(want), func() bool { return w.lifecycle(id) == want })
}

func (w *amazonGroup) stop(id cloud.InstanceID) {
	w.Helper()
	w.until("stopped", func() bool {
		power, err := w.disks.EnsureStopped(w.Context(), id)
		w.must(err)
		return power == cloud.PowerStopped
	})
}

// TestAWSStandbyIsNotReplaced: a group replaces stopped instances unless they are in standby. The desired capacity
// stays the same.
func TestAWSStandbyIsNotReplaced(t *testing.T) {
	w := newGroup(t, standbyTime, "1")
	w.must(w.recipes.ProtectFromScaleIn(t.Context(), w.ids[0], cloud.TokenUnprotected))
	w.settled(w.ids[0], scalingtypes.LifecycleStateStandby)
	w.stop(w.ids[0])
	w.advance(3 * time.Hour)
	if list := w.list(); !slices.Contains(list, w.ids[0]) || len(list) != 2 {
		t.Errorf("held, it was replaced: %v, was %v", list, w.ids)
	}
	if p, err := w.recipes.Pool(t.Context(), w.pool); err != nil || p.Capacity != 2 || p.MaxSize < 10 {
		t.Errorf("the pool is %+v, %v", p, err)
	}
	if err := w.recipes.Unprotect(t.Context(), w.ids[0], cloud.TokenUnprotected); !cloud.Is(err, cloud.Conflict) {
		t.Errorf("released while it is off, which would have it replaced: %v", err)
	}
	w.until("running", func() bool {
		power, err := w.disks.EnsureStarted(t.Context(), w.ids[0])
		w.must(err)
		return power == cloud.PowerRunning
	})
	w.must(w.recipes.Unprotect(t.Context(), w.ids[0], cloud.TokenUnprotected))
	w.settled(w.ids[0], scalingtypes.LifecycleStateInService)
	w.stop(w.ids[1])
	w.advance(3 * time.Hour)
	if list := w.list(); slices.Contains(list, w.ids[1]) || !slices.Contains(list, w.ids[0]) {
		t.Errorf("instances without standby should have been replaced: %v, was %v", list, w.ids)
	}
}

// TestAWSProtectsDuringTransition: an instance that enters or leaves standby is not turned back before the
// transition ends.
func TestAWSProtectsDuringTransition(t *testing.T) {
	w := newGroup(t, standbyTime, "1")
	w.must(w.recipes.ProtectFromScaleIn(t.Context(), w.ids[0], cloud.TokenUnprotected))
	if err := w.recipes.Unprotect(t.Context(), w.ids[0], cloud.TokenUnprotected); !cloud.Is(err, cloud.Unavailable) {
		t.Errorf("released on the way into standby: %v", err)
	}
	w.settled(w.ids[0], scalingtypes.LifecycleStateStandby)
	w.must(w.recipes.Unprotect(t.Context(), w.ids[0], cloud.TokenUnprotected))
	if hold, err := w.recipes.Protection(t.Context(), w.ids[0]); err != nil || hold.Protected || hold.Token != cloud.TokenUnprotected {
		t.Errorf("on its way back it is %+v, %v", hold, err)
	}
	if err := w.recipes.ProtectFromScaleIn(t.Context(), w.ids[0], cloud.TokenUnprotected); !cloud.Is(err, cloud.Unavailable) {
		t.Errorf("protected before it is in service: %v", err)
	}
	w.settled(w.ids[0], scalingtypes.LifecycleStateInService)
	w.must(w.recipes.ProtectFromScaleIn(t.Context(), w.ids[0], cloud.TokenUnprotected))
}

// TestAWSRestoresProtection: an instance with scale-in protection has the protection again after the capture,
// whatever happened meanwhile.
func TestAWSRestoresProtection(t *testing.T) {
	w := newGroup(t, atOnce, "1")
	protect := func(value bool) {
		_, err := w.scaling.SetInstanceProtection(t.Context(), &autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: sdk.String(awsGroup),
			InstanceIds: []string{path.Base(string(w.ids[0]))}, ProtectedFromScaleIn: sdk.Bool(value)})
		w.must(err)
	}
	protect(true)
	before, err := w.recipes.Protection(t.Context(), w.ids[0])
	w.must(err)
	if before.Protected || before.Token != cloud.TokenProtected {
		t.Fatalf("protected, and replaced when it stops, it is %+v", before)
	}
	w.must(w.recipes.ProtectFromScaleIn(t.Context(), w.ids[0], before.Token))
	if now, err := w.recipes.Protection(t.Context(), w.ids[0]); err != nil || !now.Protected {
		t.Errorf("held, it is %+v, %v", now, err)
	}
	w.advance(time.Minute)
	protect(false)
	w.must(w.recipes.Unprotect(t.Context(), w.ids[0], before.Token))
	if now, err := w.recipes.Protection(t.Context(), w.ids[0]); err != nil || now != before {
		t.Errorf("released, it is %+v, %v; want %+v", now, err, before)
	}
}

// TestAWSKeepsForeignProtection: a detached instance is in no group. Kamino has nothing to protect or to restore.
func TestAWSKeepsForeignProtection(t *testing.T) {
	w := newGroup(t, atOnce, "1")
	_, err := w.scaling.DetachInstances(t.Context(),
		&autoscaling.DetachInstancesInput{AutoScalingGroupName: sdk.String(awsGroup), InstanceIds: []string{path.Base(string(w.ids[0]))},
			ShouldDecrementDesiredCapacity: sdk.Bool(true)})
	w.must(err)
	w.advance(time.Minute)
	if hold, err := w.recipes.Protection(t.Context(), w.ids[0]); err != nil || hold != (cloud.Protection{}) {
		t.Errorf("%+v, %v", hold, err)
	}
	if err := w.recipes.Unprotect(t.Context(), w.ids[0], cloud.TokenUnprotected); !cloud.Is(err, cloud.Conflict) {
		t.Errorf("%v", err)
	}
}
