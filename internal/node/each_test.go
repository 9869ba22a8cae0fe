package node

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// pages returns a clientset that lists five nodes in pages of two. The list ends after the given number of pages, with
// err if not nil.
func pages(t *testing.T, after int, err error) *fake.Clientset {
	t.Helper()
	kube := fake.NewClientset()
	asked := 0
	kube.PrependReactor("list", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		options := action.(clienttesting.ListActionImpl).ListOptions
		if options.Limit == 0 && options.Continue == "" {
			t.Error("asks for everything at once")
		}
		if options.Limit != page {
			t.Errorf("asks for %d at once, want %d", options.Limit, page)
		}
		if asked++; err != nil && asked > after {
			return true, nil, err
		}
		list := &corev1.NodeList{}
		for i := 2 * (asked - 1); i < min(2*asked, 5); i++ {
			n := corev1.Node{}
			n.Name = fmt.Sprint("node-", i)
			list.Items = append(list.Items, n)
		}
		if asked < 3 {
			list.Continue = fmt.Sprint(asked)
		}
		return true, list, nil
	})
	return kube
}

func TestEach(t *testing.T) {
	var names []string
	take := func(n *corev1.Node) error { names = append(names, n.Name); return nil }
	if err := Each(t.Context(), pages(t, 0, nil), "", take); err != nil || fmt.Sprint(names) != "[node-0 node-1 node-2 node-3 node-4]" {
		t.Errorf("Each went through %v, %v", names, err)
	}

	gone := apierrors.NewResourceExpired("the list is too old")
	if err := Each(t.Context(), pages(t, 1, gone), "", take); !apierrors.IsResourceExpired(err) {
		t.Errorf("a list that breaks off ends in %v", err)
	}

	enough := errors.New("enough")
	if err := Each(t.Context(), pages(t, 0, nil), "", func(*corev1.Node) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("the caller's error comes back as %v", err)
	}
}
