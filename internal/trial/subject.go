package trial

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Reasons of refusals of a trial's settings.
const (
	// ChecksInvalid: the Job in the settings is missing or unsuitable, or an expression does not compile.
	ChecksInvalid = "TrialChecksInvalid"
)

// Subject has the inputs for observing the node of a trial.
type Subject struct {
	// Prototype is the capture of the version. Its settings have defaults.
	Prototype *v1alpha1.Prototype
	// Pool is the pool of the version in its cloud.
	Pool cloud.PoolID
	// Spec is the trial of this attempt. Its name is unique for the Prototype and the attempt.
	Spec cloud.TrialSpec
	// Attempt is the number of the attempt, from 1 on.
	Attempt int32
	// Instances are the cloud's instances for the attempt. Users' pods must not run on any of these before the verdict.
	Instances []cloud.Instance
	// Known are the attempt's instances and Nodes from earlier looks, from the Prototype's record.
	Known []v1alpha1.TrialNodeRecord
	// Restart is the restart of the node's instance from the Prototype's record; nil before the decision.
	Restart *v1alpha1.TrialReboot
	// Overdue is true if the removal takes too long. Nodes still in removal then return to service.
	Overdue bool
	// PoolInstances lists the pool's instances.
	PoolInstances func() ([]cloud.Instance, error)
	// Image is the version with its tags.
	Image cloud.Image
	// Facts are the facts known without the cluster: Now, Begun, Limits, FailedReads, Unobserved, Instance and Proven.
	Facts Facts
}

// Held is the Node of a machine beside a pool, which takes no users' pods.
type Held struct {
	// Node is nil without a Node. Ready: a kubelet runs for it and reports Ready.
	Node  *corev1.Node
	Ready bool
	// Doubt is the reason why no Node surely belongs to the machine.
	Doubt string
	// Known is the input for the next look.
	Known []v1alpha1.TrialNodeRecord
}

// Observation is the observation of a trial.
type Observation struct {
	// Facts are the Subject's facts completed by the cluster.
	Facts Facts
	// Node is the trial node's status; nil without a node.
	Node *v1alpha1.TrialNode
	// Known is the input for the next look. Known is valid even if the look failed.
	Known []v1alpha1.TrialNodeRecord
	// TwinInstances are the instances of Facts.Twins by node name. The caller still has to check the instances in the
	// cloud.
	TwinInstances map[string]cloud.InstanceID
}
