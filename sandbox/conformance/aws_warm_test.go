package conformance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/recipe"
)

// warmGroup is a group with a warm pool of four instances, built from the image from before a promotion.
func warmGroup(t *testing.T) (*amazonGroup, cloud.Provider) {
	t.Helper()
	w := newGroup(t, atOnce, "1").suspendReplacement()
	p := cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes))
	size := *w.group().DesiredCapacity
	_, err := w.scaling.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup),
		MaxSize: sdk.Int32(size + 10)})
	w.must(err)
	_, err = w.scaling.PutWarmPool(t.Context(), &autoscaling.PutWarmPoolInput{AutoScalingGroupName: sdk.String(awsGroup), MinSize: sdk.Int32(4),
		MaxGroupPreparedCapacity: sdk.Int32(0), InstanceReusePolicy: &scalingtypes.InstanceReusePolicy{ReuseOnScaleIn: sdk.Bool(true)}})
	w.must(err)
	w.until("warm", func() bool { return len(w.warm(p).Instances) == 4 })
	w.promoted("2026.03.14")
	return w, p
}

// warm is the warm pool as the provider shows it.
func (w *amazonGroup) warm(p cloud.Provider) cloud.WarmPool {
	w.Helper()
	pool, err := p.Pool(w.Context(), w.pool)
	w.must(err)
	if pool.Warm == nil {
		w.Fatal("the pool has no warm pool")
	}
	return *pool.Warm
}

// TestAWSWarmPool: a warm pool prevents no capture and no promotion. Kamino shows how many of its instances are from the version, and
// writes only limits that it has seen.
func TestAWSWarmPool(t *testing.T) {
	w, p := warmGroup(t)
	pool, err := p.Pool(t.Context(), w.pool)
	w.must(err)
	if len(pool.Refusals) != 0 || pool.Warm.Line(pool.Recipe) != "warm: 0 of 4 from 2026.03.14, 4 of other images, with which nodes return at scale-in" || !pool.Warm.Reuses ||
		!slices.ContainsFunc(pool.Cautions, func(r cloud.Refusal) bool {
			return r.Reason == "WarmPool" && strings.Contains(r.Message, "ReuseOnScaleIn")
		}) {
		t.Errorf("the pool is %+v, with %s", pool, pool.Warm.Line(pool.Recipe))
	}
	owner, other := cloud.WarmLimits{Min: 4, Prepared: 0}, cloud.WarmLimits{Min: 3, Prepared: 0}
	if err := p.ResizeWarmPool(t.Context(), w.pool, other, cloud.WarmLimits{Min: 1}); !cloud.Is(err, cloud.Conflict) || w.warm(p).Limits != owner {
		t.Errorf("limits that were never there: %v, and they are %+v", err, w.warm(p).Limits)
	}
	for range 2 {
		w.must(p.ResizeWarmPool(t.Context(), w.pool, owner, other))
	}
	if now := w.warm(p); now.Limits != other || !now.Reuses {
		t.Errorf("the warm pool is %+v", now)
	}
	_, err = w.scaling.DeleteWarmPool(t.Context(), &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: sdk.String(awsGroup), ForceDelete: sdk.Bool(true)})
	w.must(err)
	w.advance(time.Minute)
	if err := p.ResizeWarmPool(t.Context(), w.pool, other, owner); !cloud.Is(err, cloud.NotFound) {
		t.Errorf("without a warm pool: %v", err)
	}
}

// startsBefore grows the group by an instance of the warm pool before each request that changes the warm pool.
type startsBefore struct {
	recipe.WarmCloud
	w *amazonGroup
	n int
}

func (s *startsBefore) ResizeWarmPool(ctx context.Context, pool cloud.PoolID, from, to cloud.WarmLimits) error {
	if s.n++; s.n <= 2 {
		_, err := s.w.scaling.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(awsGroup),
			DesiredCapacity: sdk.Int32(*s.w.group().DesiredCapacity + 1)})
		s.w.must(err)
		s.w.advance(time.Second)
	}
	return s.WarmCloud.ResizeWarmPool(ctx, pool, from, to)
}

// TestAWSWarmPoolIsRenewed: after a promotion, the warm pool gets instances of the version. An instance that entered service between Kamino's
// look and its request stays, and counts as new from then on. The next node comes from the version.
func TestAWSWarmPoolIsRenewed(t *testing.T) {
	w, p := warmGroup(t)
	race := &startsBefore{WarmCloud: p, w: w}
	renewer, served := recipe.Warmer{Cloud: race, Kube: fake.NewClientset(), Namespace: "kamino-system"}, map[cloud.InstanceID]bool{}
	began := time.Time{}
	w.until("renewed", func() bool {
		pool, err := p.Pool(t.Context(), w.pool)
		w.must(err)
		d, err := renewer.Pass(t.Context(), pool, true)
		w.must(err)
		list, err := p.Instances(t.Context(), w.pool)
		w.must(err)
		have := map[cloud.InstanceID]bool{}
		for _, i := range list {
			have[i.ID] = true
			if !served[i.ID] && !began.IsZero() && i.CreatedAt.Before(began.Add(-time.Minute)) {
				t.Errorf("instance %s has entered service, and counts from %s", i.ID, i.CreatedAt)
			}
		}
		for id := range served {
			if !have[id] {
				t.Errorf("node %s was ended", id)
			}
		}
		served, began = have, w.now()
		return d.Do == recipe.Done
	})
	if race.n < 4 {
		t.Errorf("only %d requests", race.n)
	}
	if got := w.warm(p); got.Limits != (cloud.WarmLimits{Min: 4, Prepared: 0}) || len(got.Instances) != 4 || !got.Reuses {
		t.Errorf("the warm pool is %+v", got)
	}
	if pool, err := p.Pool(t.Context(), w.pool); err != nil || pool.Warm.Line(pool.Recipe) != "warm: 4 of 4 from 2026.03.14" {
		t.Errorf("%v, %v", pool.Warm, err)
	}
	w.must((&startsBefore{WarmCloud: p, w: w}).ResizeWarmPool(t.Context(), w.pool, cloud.WarmLimits{Min: 4}, cloud.WarmLimits{Min: 4}))
	w.advance(5 * time.Minute)
	list, err := p.Instances(t.Context(), w.pool)
	w.must(err)
	newest := slices.MaxFunc(list, func(a, b cloud.Instance) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if newest.BuiltFrom != "2026.03.14" {
		t.Errorf("the next node is %+v", newest)
	}
}
