package capi

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// immutable is the rule of the infrastructure providers' webhooks: templates never change, but the topology controller may try
// a change as a dry run, which a definition cannot see. Source: Cluster API, util/topology, IsDryRunRequest.
const immutable = `object.spec == oldObject.spec || has(request.dryRun) && request.dryRun && has(object.metadata.annotations) && ` +
	`'topology.cluster.x-k8s.io/dry-run' in object.metadata.annotations`

// keepTemplates lets the API server enforce the rule on templates of machines. The real provider for AWS has a webhook.
func keepTemplates(ctx context.Context, c client.Client, imitateAWS bool) error {
	resources := []string{"azuremachinetemplates"}
	if imitateAWS {
		resources = append(resources, "awsmachinetemplates")
	}
	all := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{infrastructureAWS.Group}, APIVersions: []string{"*"},
			Resources: resources},
	}
	name := metav1.ObjectMeta{Name: "templates.sandbox.kamino.dev"}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy:    new(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: all}}},
		Validations: []admissionregistrationv1.Validation{{Expression: immutable,
			Message: "a template cannot be changed; make another one, and name that"}},
	}}
	if err := apply(ctx, c, policy); err != nil {
		return err
	}
	return apply(ctx, c, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}})
}
