package capture

import (
	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// readUnproven reads the pod's report that there is no proof. The report precedes the container's status, which comes
// later and has only the exit. The report also revokes a proof whose write was not confirmed.
func (o orders) readUnproven(w *pass) {
	u := w.p.Status.Unproven
	if !w.record.Answers(u, w.p.UID) {
		return
	}
	w.disk.noProofReason = u.Message
	w.facts.Disk.Proven, w.disk.proof = false, nil
	if f := w.facts; w.disk.pod != nil || !f.Failed && !f.Deleting && !f.Hold.Returning && !w.isRemoving() {
		w.facts.Disk.Pod = plan.PodFailed // even if another client deleted the pod: no second pod may run
	}
}

// reportRecipe keeps the change of the recipe as last seen before the promotion. Afterwards the cloud shows only the
// result.
func reportRecipe(w *pass, d plan.Decision) {
	if d.Do != plan.SaveRecipe && d.Do != plan.Promote && d.Why != plan.ForPromotion {
		return
	}
	w.p.Status.Recipe = &v1alpha1.RecipeStatus{
		From: w.promotion.change.From, To: w.promotion.change.To, Removes: cloud.DescribeFields(w.promotion.change.Removes), Keeps: cloud.DescribeFields(w.promotion.change.Keeps), HandOver: w.promotion.change.HandOver,
		Contents: w.promotion.contentsChange,
	}
}

func reportImage(w *pass) {
	if w.image.version.ID == "" || w.facts.Image.Version == plan.Foreign {
		return
	}
	tags := w.image.version.Tags
	w.p.Status.Image = &v1alpha1.ImageStatus{
		ID: w.image.version.ID, ReplicationPercent: w.image.version.Percent, Proof: tags[cloud.TagProof], ContentsDigest: tags[cloud.TagContents],
		OS: tags[cloud.TagOS], Kernel: tags[cloud.TagKernel], Kubelet: tags[cloud.TagKubelet], Runtime: tags[cloud.TagRuntime],
	}
	if w.disk.proof != nil {
		w.p.Status.Image.Verified = w.disk.proof.Verified()
	}
}
