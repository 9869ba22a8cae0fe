package node

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// leaseRequests are the methods of the requests for Leases.
type leaseRequests struct {
	sync.Mutex
	next http.RoundTripper
	sent []string
}

func (l *leaseRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/leases") {
		l.Lock()
		l.sent = append(l.sent, r.Method)
		l.Unlock()
	}
	return l.next.RoundTrip(r)
}

// TestWrittenLeases: the process that has created a Lease writes and deletes the Lease without a read. If another client has
// changed the Lease, or the process is another one, the Lease is read.
func TestWrittenLeases(t *testing.T) {
	const create, read, write, remove = http.MethodPost, http.MethodGet, http.MethodPut, http.MethodDelete
	for name, c := range map[string]struct {
		changed, another bool
		want             []string
	}{
		"unchanged":                 {want: []string{create, write, write, remove}},
		"changed by another client": {changed: true, want: []string{create, write, write, read, write, read, remove}},
		"in another process":        {another: true, want: []string{create, read, write, read, write, read, remove}},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, nil)
			requests := &leaseRequests{}
			config := rest.CopyConfig(apitest.Server(t))
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { requests.next = next; return requests })
			kube, err := kubernetes.NewForConfig(config)
			y.must(err)
			s, err := reservations(t.Context(), kube)
			y.must(err)
			s.Written = &WrittenLeases{}
			holder := v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "p", UID: y.getNode().UID}
			r := NewReservation(holder, y.getNode(), "", metav1.NewTime(time.Now().Truncate(time.Second)))
			n, err := s.Reserve(t.Context(), y.getNode(), r)
			y.must(err)
			if c.another {
				s.Written = &WrittenLeases{}
			}
			for _, boot := range []string{"one", "two"} {
				if c.changed && boot == "two" {
					other, err := reservations(t.Context(), y.kube)
					y.must(err)
					changed := r
					changed.GeneralizeBootID = "of another client"
					y.must(other.Renew(t.Context(), n, changed))
				}
				r.GeneralizeBootID = boot
				n, err = s.Note(t.Context(), n, r)
				y.must(err)
			}
			if lease, err := s.Confirmed(t.Context(), n); err != nil || lease == nil || lease.GeneralizeBootID != "two" {
				t.Errorf("the Lease has %+v, %v", lease, err)
			}
			requests.sent = requests.sent[:len(requests.sent)-1]
			y.must(s.DropOf(t.Context(), holder.UID))
			if !slices.Equal(requests.sent, c.want) {
				t.Errorf("requests %v, want %v", requests.sent, c.want)
			}
			if lease, err := s.Confirmed(t.Context(), n); err != nil || lease != nil {
				t.Errorf("the Lease stays: %+v, %v", lease, err)
			}
		})
	}
}
