package trial

import (
	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Subject is what somebody needs to know who looks at the node of a trial.
type Subject struct {
	// Prototype that the version was captured by: its name, UID, pool, version and settings, defaults filled in.
	Prototype *v1alpha1.Prototype
	// Pool of the version, in its cloud.
	Pool cloud.PoolID
	// Spec of this attempt, whose name is unique for the Prototype and the attempt.
	Spec cloud.TrialSpec
	// Attempt, from 1 on.
	Attempt int32
	// Instances that were built for it, as the cloud tells. In the pool that is every one that was built from the version;
	// none of them may get users' pods before the verdict.
	Instances []cloud.Instance
	// Known are the attempt's instances and their Nodes as earlier looks left them, from the Prototype's record.
	Known []v1alpha1.TrialNodeRecord
	// Overdue tells that the removal takes longer than it may: Nodes that are still waited for are returned to service.
	Overdue bool
	// Stay tells that they stay in the pool: a person has promoted the version since the trial let go of the recipe.
	Stay bool
	// Image is the version, with its tags.
	Image cloud.Image
	// Facts as far as they are known without the cluster: Now, Begun, Limits, Unread, Blind, Instance and Proven.
	Facts Facts
}

// Sight is what somebody saw of it.
type Sight struct {
	// Facts are the Subject's, with what the cluster says of the node.
	Facts Facts
	// Node is what the trial node says of itself; nil while there is none.
	Node *v1alpha1.TrialNode
	// Known is what the next look has to be given. It holds even where the look failed.
	Known []v1alpha1.TrialNodeRecord
	// TwinInstances are the instances of Facts.Twins, by the Node's name. The cloud is still to be asked whether it has them.
	TwinInstances map[string]cloud.InstanceID
}
