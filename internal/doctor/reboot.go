package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// rebooting begins a word in the name or in the image of what reboots nodes: kured, and daemons that install updates.
var rebooting = []string{"kured", "kubereboot", "reboot", "patch", "update", "upgrade", "brupop"}

// rebooters warns of DaemonSets that would run on the workshops of a pool, and that may reboot them.
func rebooters(ctx context.Context, p *poolView) (found []Finding) {
	if !p.uses(v1alpha1.MethodCopy) || p.like == nil {
		return nil
	}
	sets, err := membership.Once(p.seen, "daemonsets", func() (*appsv1.DaemonSetList, error) {
		return p.Kube.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	})
	if err != nil {
		return []Finding{warn("", "unknown whether a DaemonSet would reboot workshops: %s", err)}
	}
	workshop := p.like.DeepCopy()
	metav1.SetMetaDataLabel(&workshop.ObjectMeta, v1alpha1.TrialKey, "workshop")
	for i := range sets.Items {
		set := &sets.Items[i]
		if name := set.Namespace + "/" + set.Name; (name == p.Kured || mayReboot(set)) && node.BelongsOn(set, workshop) {
			found = append(found, warn(fmt.Sprintf("keep it off Nodes with the label %s: see %s", v1alpha1.TrialKey, page.Kured),
				"DaemonSet %s would run on workshops, and may reboot them; a workshop that reboots with the copy is lost, and a capture has three", name))
		}
	}
	return found
}

// mayReboot reports whether the DaemonSet is known to reboot nodes, and has the rights of the host.
func mayReboot(set *appsv1.DaemonSet) bool {
	spec := set.Spec.Template.Spec
	words := set.Name
	isPrivileged := spec.HostPID
	for _, c := range spec.Containers {
		words += " " + c.Image[strings.LastIndexByte(c.Image, '/')+1:]
		isPrivileged = isPrivileged || isRoot(c.SecurityContext)
	}
	return isPrivileged && slices.ContainsFunc(strings.FieldsFunc(words, func(r rune) bool { return !unicode.IsLetter(r) }), func(word string) bool {
		return slices.ContainsFunc(rebooting, func(begin string) bool { return strings.HasPrefix(word, begin) })
	})
}

func isRoot(c *corev1.SecurityContext) bool { return c != nil && c.Privileged != nil && *c.Privileged }
