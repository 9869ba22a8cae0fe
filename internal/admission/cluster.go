package admission

import (
	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

const manifests = "kamino manifests | kubectl apply -f -"

// installation finds what would keep the pod on the donor from being made, or from reporting: it would show only when the
// donor is drained.
func installation(c *Case) ([]cloud.Refusal, error) {
	if c.Strayed() {
		return nil, nil
	}
	there, err := of(c.Account, "the generalize pod's account")
	switch {
	case err != nil:
		return nil, err
	case !there:
		return refuse(NotInstalled, manifests,
			"there is no service account %s in namespace %s, which the generalize pod needs", v1alpha1.GeneralizeServiceAccount, c.Namespace), nil
	}
	if queued, err := c.Queued.Get(); err == nil && queued {
		return nil, nil // it is asked when it is its turn
	}
	var refusals []cloud.Refusal
	lacking, err := of(c.RightLacking, "what the generalize pod's account may do")
	if err == nil && lacking != "" {
		refusals = refuse(NotInstalled, "give it its role again, by "+manifests+", or by helm upgrade",
			"service account %s/%s, which the generalize pod runs as, may not %s in its namespace, so that the pod could not report",
			c.Namespace, v1alpha1.GeneralizeServiceAccount, lacking)
	}
	order, orderErr := of(c.OrderRefused, "whether orders are taken")
	if orderErr == nil && order != "" {
		refusals = append(refusals, refuse(NotInstalled, manifests,
			"the API server takes no orders for the generalize pod in namespace %s: %s. Install what this version of Kamino needs", c.Namespace, order)...)
	}
	pod, podErr := of(c.PodRefused, "whether the generalize pod is let in")
	if podErr == nil && pod != "" {
		refusals = append(refusals, refuse(NotInstalled,
			"mend what it names; for Pod Security, label the namespace pod-security.kubernetes.io/enforce=privileged, or name another one with --generalize-namespace",
			"the API server does not let the generalize pod into namespace %s: %s", c.Namespace, pod)...)
	}
	return refusals, first(err, orderErr, podErr)
}

// first of the errors that is one.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// rules refuses the user's own if they can't be used: the pod would refuse them too, but only once its node is drained.
func rules(c *Case) ([]cloud.Refusal, error) {
	name := c.Prototype.Spec.Settings.Generalize.Rules
	if name == "" || c.Strayed() {
		return nil, nil
	}
	name = c.Namespace + "/" + name
	found, err := of(c.Rules, "ConfigMap "+name)
	switch {
	case err != nil:
		return nil, err
	case found.Missing:
		return refuse(RulesNotFound, "create it, or leave the setting out",
			"there is no ConfigMap %s, which settings.generalize.rules names", name), nil
	case found.Wrong != "":
		return refuse(RulesInvalid, "see `kamino generalize --list --profile-file` on the same files",
			"the rules in ConfigMap %s cannot be used: %s", name, found.Wrong), nil
	}
	return nil, nil
}

// customData finds a copy that is named and not there before anything is done. Once the recipe has lost what it loses,
// nobody needs the copy.
func customData(c *Case) ([]cloud.Refusal, error) {
	if c.Prototype.Spec.Settings.Recipe.CustomDataFrom == nil || c.Strayed() {
		return nil, nil
	}
	found, err := of(c.CustomData, "the copy of customData")
	if err != nil || found.Missing == nil || !found.Needed {
		return nil, err
	}
	return []cloud.Refusal{cloud.Refuse(found.Missing.Reason, found.Missing.What(), found.Missing.Remedy+", or leave the setting out")}, nil
}

// force needs the right to delete pods. A Prototype that is only thought of may be carried out by another process, whose
// rights are not known here.
func force(c *Case) ([]cloud.Refusal, error) {
	if !c.AsksForce() || c.Strayed() {
		return nil, nil
	}
	if may, err := of(c.MayDelete, "whether pods may be deleted"); err != nil || may {
		return nil, err
	}
	return refuse(ForceNotAllowed, "give it that right with rbac.force=true (kamino manifests --force), or leave force out",
		"the drain is to be forced (settings.drain.force), and Kamino may not delete pods"), nil
}

// removal needs the right to delete the donor's Node, which would be missed when its instance is gone.
func removal(c *Case) ([]cloud.Refusal, error) {
	if !c.AsksRemoval() || c.Strayed() {
		return nil, nil
	}
	if may, err := of(c.MayDeleteNode, "whether nodes may be deleted"); err != nil || may {
		return nil, err
	}
	return refuse(RemovalNotAllowed, "give it that right with rbac.removeDonors=true (kamino manifests --remove-donors)",
		"node %s does not return from its capture, and Kamino may not delete nodes", c.node()), nil
}

// AsksRemoval tells whether the asking process's right to delete Nodes matters.
func (c *Case) AsksRemoval() bool {
	return c.Prototype.Spec.Settings.DonorLeaves() && (c.Prototype.UID != "" || c.Drives)
}

// AsksForce tells whether the asking process's right to delete pods matters.
func (c *Case) AsksForce() bool {
	return c.Prototype.Spec.Settings.Drain.Force && (c.Prototype.UID != "" || c.Drives)
}
