package admission

import (
	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

const manifests = "kamino manifests | kubectl apply -f -"

// installation finds obstacles for the creation or the report of the pod on the donor. Without this check, an obstacle
// appears only after the drain.
func installation(c *Case) ([]cloud.Refusal, error) {
	if c.Strayed() {
		return nil, nil
	}
	there, err := resultOf(c.Account, "the service account of the generalize pod")
	switch {
	case err != nil:
		return nil, err
	case !there:
		return refuse(NotInstalled, manifests,
			"service account %s not found in namespace %s; the generalize pod needs the account", v1alpha1.GeneralizeServiceAccount, c.Process.Namespace), nil
	}
	if queued, err := c.Queued.Get(); err == nil && queued {
		return nil, nil // the check waits for the capture's turn
	}
	var refusals []cloud.Refusal
	lacking, err := resultOf(c.RightLacking, "the permissions of the generalize pod")
	if err == nil && lacking != "" {
		refusals = refuse(NotInstalled, "restore the role with `"+manifests+"`, or with helm upgrade",
			"service account %s/%s of the generalize pod may not %s in its namespace, so the pod could not report",
			c.Process.Namespace, v1alpha1.GeneralizeServiceAccount, lacking)
	}
	order, orderErr := resultOf(c.OrderRefused, "whether the API server accepts NodeOrders")
	if orderErr == nil && order != "" {
		refusals = append(refusals, refuse(NotInstalled, manifests,
			"the API server rejects NodeOrders for the generalize pod in namespace %s: %s. Install the manifests of this Kamino version", c.Process.Namespace,
			order)...)
	}
	pod, podErr := resultOf(c.PodRefused, "whether the API server accepts the generalize pod")
	if podErr == nil && pod != "" {
		refusals = append(refusals, refuse(NotInstalled,
			"fix the named cause; for Pod Security, label the namespace pod-security.kubernetes.io/enforce=privileged, or set another namespace with --generalize-namespace",
			"the API server rejects the generalize pod in namespace %s: %s", c.Process.Namespace, pod)...)
	}
	return refusals, first(err, orderErr, podErr)
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// RulesOf refuses invalid rules of the user. The pod would refuse the rules, too, but only after the drain. The
// order of the generalization asks again.
func RulesOf(c *Case) ([]cloud.Refusal, error) {
	name := c.Prototype.Spec.Settings.Generalize.Rules
	if name == "" || c.Strayed() {
		return nil, nil
	}
	name = c.Process.Namespace + "/" + name
	found, err := resultOf(c.Rules, "ConfigMap "+name)
	switch {
	case err != nil:
		return nil, err
	case found.Missing:
		return refuse(RulesInvalid, "create the ConfigMap, or remove the setting",
			"ConfigMap %s of settings.generalize.rules not found", name), nil
	case found.Wrong != "":
		return refuse(RulesInvalid, "run `kamino-node generalize --list --profile-file` on the same files",
			"the rules in ConfigMap %s are invalid: %s", name, found.Wrong), nil
	}
	return nil, nil
}

// customData refuses a missing copy before any effect. After the recipe has lost its customData, the copy is not needed.
func customData(c *Case) ([]cloud.Refusal, error) {
	if c.Prototype.Spec.Settings.Recipe.CustomDataFrom == nil || c.Strayed() {
		return nil, nil
	}
	found, err := resultOf(c.CustomData, "the copy of customData")
	if err != nil || found.Missing == nil || !found.Needed {
		return nil, err
	}
	return []cloud.Refusal{cloud.Refuse(found.Missing.Reason, found.Missing.What(), found.Missing.Remedy+", or remove the setting")}, nil
}

// force requires the permission to delete pods. Another process with unknown permissions may run a Prototype that does not
// exist yet.
func force(c *Case) ([]cloud.Refusal, error) {
	if !c.AsksForce() || c.Strayed() {
		return nil, nil
	}
	if may, err := resultOf(c.MayDelete, "the permission to delete pods"); err != nil || may {
		return nil, err
	}
	return refuse(NotAllowed, "grant the permission with rbac.force=true (kamino manifests --force), or remove force",
		"settings.drain.force is set, but Kamino may not delete pods"), nil
}

// AsksForce reports whether this process needs the permission to delete pods.
func (c *Case) AsksForce() bool {
	return c.Prototype.Spec.Settings.Drain.Force && !c.StaysInService() && (c.Prototype.UID != "" || c.Process.Drives)
}
