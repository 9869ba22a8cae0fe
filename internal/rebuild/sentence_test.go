package rebuild

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestMessagesAreReportedOnce: the sentence after the node's name does not repeat the name.
func TestMessagesAreReportedOnce(t *testing.T) {
	const name = "k8s-pool1-24816321-vmss000004"
	conflict := fmt.Errorf("patch node %s: %w", name,
		apierrors.NewConflict(corev1.Resource("nodes"), name,
			errors.New("the object has been modified; please apply your changes to the latest version and try again")))
	if !passes(conflict) {
		t.Fatal("a conflict does not pass")
	}
	if message := why(conflict); strings.Contains(message, name) || !strings.Contains(message, "at the same time") {
		t.Errorf("it says %q", message)
	}
	if message := why(errors.New("the cloud is busy")); message != "the cloud is busy" {
		t.Errorf("it says %q", message)
	}
}
