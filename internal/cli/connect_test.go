package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
)

func TestTheClockIsReadFromTheAPIServer(t *testing.T) {
	for _, ahead := range []time.Duration{0, 4 * time.Minute, -4 * time.Minute, 6 * time.Minute, -3 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", testNow.Add(ahead).Format(http.TimeFormat))
			}))
			defer server.Close()
			reader := &clockReader{next: http.DefaultTransport, now: func() time.Time { return testNow }}
			c := &Cluster{Skew: reader.skew}
			if err := c.checkClock(); err != nil {
				t.Fatalf("before anything was heard: %v", err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := reader.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if got, heard := reader.skew(); !heard || got != ahead {
				t.Errorf("skew = %s (heard %t), want %s", got, heard, ahead)
			}
			err = c.checkClock()
			if refused := ahead.Abs() > maxSkew; (err != nil) != refused || refused && exitCode(err) != ExitRefused {
				t.Errorf("checkClock with %s: %v", ahead, err)
			}
			if err != nil && strings.Contains(err.Error(), "ahead of") != (ahead < 0) {
				t.Errorf("checkClock with %s says %q", ahead, err)
			}
		})
	}
}

func TestLeaseHolder(t *testing.T) {
	lease := func(who string, renewed time.Duration) *coordinationv1.Lease {
		seconds, at := int32(30), metav1.NewMicroTime(testNow.Add(-renewed))
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName, Namespace: "ns"}}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &who, &seconds, &at
		return l
	}
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		want  string
	}{
		"no lease":       {nil, "nobody"},
		"given back":     {lease("", 0), "nobody"},
		"expired":        {lease("controller/c/1", time.Minute), "nobody"},
		"a controller":   {lease("controller/c/1", time.Second), "the controller c"},
		"a command":      {lease("command/laptop/1", time.Second), "a command on laptop"},
		"somebody else":  {lease("c_1234", time.Second), "c_1234"},
		"never renewed":  {&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName, Namespace: "ns"}}, "nobody"},
		"by this minute": {lease(identity(roleController), 29*time.Second), "the controller " + parseHolder(identity(roleController)).Host},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if test.lease != nil {
				objects = append(objects, test.lease)
			}
			c := &Cluster{Kube: fake.NewClientset(objects...)}
			got, err := c.leaseHolder(t.Context(), "ns", testNow)
			if err != nil || got.String() != test.want {
				t.Errorf("leaseHolder = %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

// Two identities of one process differ: a command that is started again is not the one that was killed.
func TestIdentitiesAreUnique(t *testing.T) {
	if a, b := identity(roleCommand), identity(roleCommand); a == b {
		t.Errorf("two identities are both %s", a)
	}
}

// The census of a large cluster goes by pages.
func TestCensusPages(t *testing.T) {
	kube := fake.NewClientset()
	pages := 0
	kube.PrependReactor("list", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		options := action.(clienttesting.ListActionImpl).ListOptions
		if options.Limit < 100 || options.Limit > 500 {
			t.Errorf("pages of %d", options.Limit)
		}
		list := &corev1.NodeList{}
		for i := range 10 {
			node := corev1.Node{}
			node.Spec.ProviderID = fmt.Sprintf("memory:///pools/p%d/instances/%d", i%2, i)
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			list.Items = append(list.Items, node)
		}
		if pages++; pages < 3 {
			list.Continue = "more"
		}
		return true, list, nil
	})
	s := &session{cluster: &Cluster{Kube: kube}, provider: testCloud()}
	pools, err := s.census(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(pools) != 2 || pools[0].Nodes != 15 || pools[1].ReadyNodes != 15 {
		t.Errorf("pools = %+v", pools)
	}
}

// A pool that the cloud won't show is shown as far as it is known, and the exit code tells.
func TestStatusShowsWhatCanBeFound(t *testing.T) {
	provider := testCloud()
	provider.Forbid("Images")
	s := &session{Factory: &Factory{Now: func() time.Time { return testNow }}, provider: provider}
	pools := []print.Pool{{Pool: cloud.Pool{ID: "memory:///pools/pool1", Name: "pool1"}}}
	err := s.askCloud(t.Context(), pools)
	if exitCode(err) != ExitNotAllowed {
		t.Errorf("askCloud: %v, want a denial", err)
	}
	if pools[0].Capacity != 3 || pools[0].Error == "" {
		t.Errorf("pool = %+v", pools[0])
	}
}
