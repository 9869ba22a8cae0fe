package capi

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	poolOfGroup = `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachinePool, metadata: {name: workers, namespace: fleet, annotations: {cluster.x-k8s.io/replicas-managed-by: autoscaler}},
  spec: {template: {spec: {bootstrap: {dataSecretName: boot}, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachinePool, name: workers}}}}}`
	factoryOfGroup = `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachinePool, metadata: {name: workers, namespace: fleet}, spec: {
  minSize: 1, maxSize: 9, refreshPreferences: {disable: true}, awsLaunchTemplate: {instanceType: m6i.large, ami: {id: ami-1}}}, status: {infrastructureMachineKind: AWSMachine}}`
)

// TestGroupRefreshRefusals: an instance refresh is refused.
func TestGroupRefreshRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		pool, factory string
		want          []string
	}{
		"all as it must be":    {poolOfGroup, factoryOfGroup, nil},
		"refreshes":            {poolOfGroup, strings.Replace(factoryOfGroup, "disable: true", "disable: false", 1), []string{cloud.NodesWouldBeReplaced}},
		"refreshes by default": {poolOfGroup, strings.Replace(factoryOfGroup, "refreshPreferences: {disable: true}, ", "", 1), []string{cloud.NodesWouldBeReplaced}},
		"no machines": {poolOfGroup, strings.Replace(factoryOfGroup, "{infrastructureMachineKind: AWSMachine}", "{}", 1),
			[]string{cloud.PoolUnsupported}},
		"nothing as it must be ": {strings.Replace(poolOfGroup, "managed-by: autoscaler", "managed-by: 'false'", 1),
			`{kind: AWSMachinePool, spec: {}}`, []string{cloud.NodesWouldBeReplaced, cloud.PoolUnsupported}},
	} {
		var got []string
		for _, r := range awsRolls(parseObject(t, c.pool), parseObject(t, c.factory), featureGateState{}) {
			got = append(got, r.Reason)
			if r.Remedy == "" || !slices.ContainsFunc(Reasons(), func(known cloud.Reason) bool { return known.Name == r.Reason }) {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestImagesOfGroups: the image is in the launch template, and a lookup of other images is removed.
func TestImagesOfGroups(t *testing.T) {
	v := viewOf(t, poolOfGroup, strings.Replace(factoryOfGroup, "ami: {id: ami-1}", "imageLookupOrg: '1', ami: {id: ami-1, eksLookupType: AmazonLinux}", 1))
	renamed, err := v.specWithImage("ami-2", nil)
	if err != nil || v.image != "ami-1" {
		t.Fatalf("renamed it is %v, %v; and was %s", renamed, err, v.image)
	}
	if diff := cmp.Diff(parseObject(t, `{imageLookupOrg: null, ami: {id: ami-2, eksLookupType: null}}`).Object, overlay(v.machine(), renamed)); diff != "" {
		t.Errorf("what is written (-want +got):\n%s", diff)
	}
	if back, err := v.specWithImage("ami-1", v.savedImageField()); err != nil || cmp.Diff(v.savedImageField(), back["ami"]) != "" {
		t.Errorf("released it is %v, %v", back, err)
	}
}

// TestTrialMachinesOfGroups: a trial Machine has all settings of the pool that a Machine can have. Other settings
// are reported.
func TestTrialMachinesOfGroups(t *testing.T) {
	for name, c := range map[string]struct {
		spec, want string
		without    []string
	}{
		"plain": {`{minSize: 1, maxSize: 3, awsLaunchTemplate: {instanceType: m, ami: {id: a}}}`,
			`{instanceType: m, ami: {id: a}, cloudInit: {insecureSkipSecretsManager: true}}`, nil},
		"all": {
			`{minSize: 1, maxSize: 3, providerID: p, providerIDList: [a], availabilityZones: [x], availabilityZoneSubnetType: all, subnets: [{id: s1}, {id: s2}], additionalTags: {a: b}, defaultCoolDown: 1s,
			  defaultInstanceWarmup: 1s, refreshPreferences: {disable: true}, capacityRebalance: true, suspendProcesses: {all: true}, lifecycleHooks: [], mixedInstancesPolicy: {overrides: [{instanceType: n}]},
			  awsLaunchTemplate: {name: n, versionNumber: 3, instanceType: m, ami: {id: a}, iamInstanceProfile: i, rootVolume: {size: 8}, nonRootVolumes: [], sshKeyName: k, additionalSecurityGroups: [{id: g}],
			  instanceMetadataOptions: {httpTokens: required}, privateDnsName: {hostnameType: resource-name}, capacityReservationId: c, marketType: OnDemand, capacityReservationPreference: None}}`,
			`{subnet: {id: s1}, additionalTags: {a: b}, instanceType: m, ami: {id: a}, iamInstanceProfile: i, rootVolume: {size: 8}, nonRootVolumes: [], sshKeyName: k, additionalSecurityGroups: [{id: g}],
			  instanceMetadataOptions: {httpTokens: required}, privateDnsName: {hostnameType: resource-name}, capacityReservationId: c, marketType: OnDemand, capacityReservationPreference: None,
			  cloudInit: {insecureSkipSecretsManager: true}}`, nil,
		},
		"ignition": {`{ignition: {version: "3.4"}, awsLaunchTemplate: {instanceType: m}}`, `{ignition: {version: "3.4"}, instanceType: m}`, nil},
		"more than is known": {
			`{hosts: h, awsLaunchTemplate: {enclaveOptions: {enabled: true}}}`, `{cloudInit: {insecureSkipSecretsManager: true}}`,
			[]string{"an instance type of the policy", "spec.awsLaunchTemplate.enclaveOptions", "spec.hosts"},
		},
	} {
		factory := parseObject(t, `{kind: AWSMachinePool, spec: `+c.spec+`}`)
		before := factory.DeepCopy()
		machine, without := awsSeparateMachine(factory)
		if diff := cmp.Diff(parseObject(t, c.want).Object, map[string]any(machine)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(c.without, without); diff != "" {
			t.Errorf("%s is without (-want +got):\n%s", name, diff)
		}
		machine["instanceType"] = "another"
		if diff := cmp.Diff(before.Object, factory.Object); diff != "" {
			t.Errorf("%s: the pool was changed: %s", name, diff)
		}
	}
}
