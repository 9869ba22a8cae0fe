package judge

import (
	"slices"
	"strings"
	"testing"
)

const (
	donor       = "k8s-past-24816321-vmss000000" // of the first capture on Azure
	awsDonor    = "ip-10-100-20-105"
	awsOther    = "ip-10-19-238-82"
	awsTrial    = "ip-10-104-125-203"
	awsWorkshop = "ip-10-84-130-62"
	// Instances of awsDonor and awsTrial.
	awsInstance      = "i-0e32c9943bff8800f"
	awsTrialInstance = "i-0cba948d4f5a53119"
)

// wrongRuns change a recorded run so that a sentence becomes false.
var wrongRuns = []struct {
	sentence    int
	name, cloud string
	change      func(t *testing.T, r *record)
}{
	{1, "a running instance is stopped", "azure", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "virtualMachines/0/start")[0], func(o object) {
			o["path"] = strings.ReplaceAll(text(o, "path"), "virtualMachines/0/start", "virtualMachines/1/powerOff")
		})
	}},
	{1, "a running instance is rebuilt", "azure", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "virtualMachines/0/start")[0], func(o object) {
			o["path"] = strings.ReplaceAll(text(o, "path"), "virtualMachines/0/start", "manualUpgrade")
			o["in"] = object{"instanceIds": []any{"1"}}
		})
	}},
	{1, "a capture ends a running instance", "aws", func(t *testing.T, r *record) {
		set(r.called[r.calls(t, "POST", "/ec2/TerminateInstances")[1]], []any{awsInstance}, "in", "InstanceId")
		r.called = repeat(t, r.called, r.calls(t, "POST", "/ec2/TerminateInstances")[1], func(o object) { set(o, []any{awsTrialInstance}, "in", "InstanceId") })
	}},
	{1, "an instance whose disk is copied is stopped", "aws", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "/ec2/AttachVolume")[0], func(o object) {
			o["path"], o["in"] = "/ec2/StopInstances", object{"InstanceId": []any{awsInstance}}
		})
	}},
	{1, "Kamino changes a Node whose disk is copied, and changes it back", "aws", func(t *testing.T, r *record) {
		at := r.byKamino(r.asked(t, "patch nodes "+awsWorkshop))[0]
		var before object
		r.nodes(func(name string, n object) {
			if name == awsDonor {
				before = n
			}
		})
		for i, value := range []any{"true", nil} {
			r.audit = repeat(t, r.audit, at+i, func(o object) {
				set(o, awsDonor, "objectRef", "name")
				o["responseObject"] = copyOf(t, before)
				for _, of := range []string{"requestObject", "responseObject"} {
					set(o, value, of, "metadata", "annotations", "cluster-autoscaler.kubernetes.io/scale-down-disabled")
				}
			})
		}
	}},
	{1, "Kamino deletes the Node of a pool", "aws", func(t *testing.T, r *record) {
		r.audit = repeat(t, r.audit, r.byKamino(r.asked(t, "patch nodes "+awsTrial))[0], func(o object) {
			o["verb"] = "delete"
			set(o, awsOther, "objectRef", "name")
		})
	}},
	{1, "the pool grows with its recipe", "aws", func(t *testing.T, r *record) {
		set(r.called[r.calls(t, "POST", "UpdateAutoScalingGroup")[0]], "4", "in", "DesiredCapacity")
	}},
	{1, "the pool would roll the recipe out", "azure", func(_ *testing.T, r *record) {
		r.inAnswers("id", "virtualMachineScaleSets/", func(s object) {
			if part(s, "properties", "upgradePolicy") != nil {
				set(s, "Rolling", "properties", "upgradePolicy", "mode")
			}
		})
	}},
	{1, "the pool shrinks", "azure", func(t *testing.T, r *record) {
		set(r.called[r.calls(t, "PATCH", "virtualMachineScaleSets/k8s-past")[0]], "1", "in", "sku", "capacity")
	}},
	{2, "the image is quarantined", "azure", func(_ *testing.T, r *record) {
		r.inAnswers("id", "/versions/2026.11.28", func(s object) { set(s, "bad", "tags", "kamino-quarantined") })
	}},
	{2, "the image is not complete", "aws", func(t *testing.T, r *record) {
		for _, o := range r.called[:r.calls(t, "POST", "UpdateAutoScalingGroup")[0]] {
			answers(at(o, "out"), "imageState", "available", func(s object) { s["imageState"] = "pending" })
		}
	}},
	{2, "the image has another proof", "azure", func(_ *testing.T, r *record) {
		r.inAnswers("id", "/versions/2026.11.28", func(s object) { set(s, "static/1/sha256:0", "tags", "kamino-proof") })
	}},
	{2, "the report is not signed", "aws", func(t *testing.T, r *record) {
		for _, i := range r.asked(t, "patch nodeorders/status") {
			set(r.audit[i], "AAAA", "responseObject", "status", "signature")
		}
	}},
	{2, "the report is of another capture", "aws", func(t *testing.T, r *record) {
		for _, i := range r.asked(t, "create nodeorders") {
			set(r.audit[i], "another", "responseObject", "spec", "holder", "uid")
		}
	}},
	{2, "the image is unknown", "azure", func(t *testing.T, r *record) {
		set(r.called[r.calls(t, "PATCH", "virtualMachineScaleSets/k8s-past")[0]], "/subscriptions/foreign", append([]string{"in"}, azureImage...)...)
	}},
	{3, "two captures of a pool at once", "azure", func(t *testing.T, r *record) {
		lease := r.asked(t, "create leases node-"+donor)[0]
		r.audit = repeat(t, r.audit, lease, func(o object) {
			set(o, "node-other", "objectRef", "name")
			set(o, "k8s-past-24816321-vmss000001", "responseObject", "metadata", "annotations", "kamino.dev/node")
		})
		end := r.asked(t, "delete leases node-"+donor)[0]
		r.audit = repeat(t, r.audit, end, func(o object) { set(o, "node-other", "objectRef", "name") })
	}},
	{3, "more reservations than the limit", "aws", func(t *testing.T, r *record) {
		lease := r.asked(t, "create leases node-"+awsDonor)[0]
		r.audit = repeat(t, r.audit, lease, func(o object) {
			set(o, "node-other", "objectRef", "name")
			set(o, "a-rebuild", "responseObject", "metadata", "labels", "kamino.dev/holder")
		})
	}},
	{4, "the node stays cordoned", "azure", func(_ *testing.T, r *record) {
		reserved := false
		r.nodes(func(name string, n object) {
			if reserved = reserved || name == donor && text(n, "spec", "unschedulable") == "true" &&
				text(n, "metadata", "annotations", "kamino.dev/reservation") != ""; reserved && name == donor {
				set(n, true, "spec", "unschedulable")
			}
		})
	}},
	{4, "a protecting annotation stays", "azure", func(_ *testing.T, r *record) {
		const key = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
		held := false
		r.nodes(func(name string, n object) {
			if held = held || name == donor && text(n, "metadata", "annotations", key) != ""; held && name == donor {
				set(n, "true", "metadata", "annotations", key)
			}
		})
	}},
	{4, "the protection from scale-in stays", "azure", func(t *testing.T, r *record) {
		for _, o := range r.called[r.calls(t, "PUT", "vmss/virtualMachines/0")[1]:] {
			answers(at(o, "out"), "id", "vmss/virtualMachines/0", func(s object) {
				if part(s, "properties") != nil {
					set(s, true, "properties", "protectionPolicy", "protectFromScaleIn")
				}
			})
		}
	}},
	{4, "the donor is away for too long", "azure", func(_ *testing.T, r *record) {
		for _, o := range r.audit {
			if text(o, "responseObject", "kind") == "Prototype" {
				set(o, "1s", "responseObject", "spec", "settings", "outOfService", "deadline")
				set(o, "1s", "responseObject", "spec", "settings", "outOfService", "readyTimeout")
			}
		}
	}},
	{5, "a snapshot stays", "azure", func(t *testing.T, r *record) {
		r.called = slices.DeleteFunc(r.called, func(o object) bool {
			return text(o, "method") == "DELETE" && strings.Contains(text(o, "path"), "snapshot_")
		})
	}},
	{5, "the instance of a trial stays", "aws", func(t *testing.T, r *record) {
		i := r.calls(t, "POST", "/ec2/TerminateInstances")[0]
		r.called = slices.Delete(r.called, i, i+1)
	}},
	{5, "a pod and a NodeOrder stay", "azure", func(t *testing.T, r *record) {
		r.audit = slices.DeleteFunc(r.audit, func(o object) bool {
			return text(o, "verb") == "delete" && text(o, "objectRef", "resource") != "leases"
		})
	}},
	{5, "the reservation stays", "aws", func(t *testing.T, r *record) {
		i := r.asked(t, "delete leases node-"+awsDonor)[0]
		r.audit = slices.Delete(r.audit, i, i+1)
	}},
	{5, "a snapshot of another cluster is deleted", "azure", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "DELETE", "snapshot_")[0], func(o object) { o["path"] = text(o, "path") + "-foreign" })
	}},
	{5, "an image of another cluster is tagged", "aws", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "CreateTags")[0], func(o object) { set(o, []any{"ami-00000000000000000"}, "in", "ResourceId") })
	}},
	{6, "no other node is Ready", "azure", func(_ *testing.T, r *record) {
		r.nodes(func(name string, n object) {
			if name != donor && name != "k8s-past-24816321-vmss000002" {
				notReady(n)
			}
		})
	}},
	{6, "the other nodes are of other pools", "azure", func(_ *testing.T, r *record) {
		r.nodes(func(name string, n object) {
			if name != donor && name != "k8s-past-24816321-vmss000003" { // which joins later, and is rebuilt
				set(n, "azure:///subscriptions/s/resourceGroups/g/providers/microsoft.compute/virtualmachinescalesets/others/virtualmachines/"+name, "spec", "providerID")
			}
		})
	}},
	{7, "the current version is deleted", "azure", func(t *testing.T, r *record) {
		put := r.calls(t, "PUT", "/versions/2026.11.28")[0]
		last := r.calls(t, "PATCH", "virtualMachineScaleSets/k8s-past")[0]
		r.called = repeat(t, r.called, last, func(o object) { o["path"], o["method"] = r.called[put]["path"], "DELETE" })
	}},
	{7, "the prior version is deleted", "azure", func(t *testing.T, r *record) {
		put := r.calls(t, "PUT", "/versions/2026.11.28")[0]
		for _, i := range r.calls(t, "PATCH", "virtualMachineScaleSets/k8s-past") {
			if strings.HasSuffix(text(r.called[i], append([]string{"in"}, azureImage...)...), "2026.11.29") {
				r.called = repeat(t, r.called, i, func(o object) { o["path"], o["method"] = r.called[put]["path"], "DELETE" })
				return
			}
		}
		t.Fatal("no promotion of 2026.11.29")
	}},
	{8, "Kamino reads a Secret of another namespace", "aws", func(t *testing.T, r *record) {
		r.audit = repeat(t, r.audit, r.byKamino(r.asked(t, "create secrets"))[0], func(o object) {
			o["verb"] = "get"
			set(o, "kube-system", "objectRef", "namespace")
		})
	}},
	{8, "Kamino reads the NodeOrders of all namespaces", "aws", func(t *testing.T, r *record) {
		r.audit = repeat(t, r.audit, r.byKamino(r.asked(t, "create nodeorders"))[0], func(o object) {
			o["verb"], o["objectRef"] = "list", object{"resource": "nodeorders", "apiGroup": "kamino.dev"}
		})
	}},
	{8, "an action of AWS that no policy has", "aws", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "/ec2/CreateSnapshot")[0], func(o object) { o["path"] = "/ec2/ModifyVolume" })
	}},
	{8, "an action of Azure that the role lacks", "azure", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "virtualMachines/0/start")[0], func(o object) {
			o["path"] = strings.ReplaceAll(text(o, "path"), "start", "runCommand")
		})
	}},
	{9, "a kubelet writes another Node", "aws", func(t *testing.T, r *record) {
		set(r.audit[r.asked(t, "create nodes "+awsTrial)[0]], "system:node:"+awsDonor, "user", "username")
	}},
	{9, "the pod's account writes a Prototype", "azure", func(t *testing.T, r *record) {
		o := r.audit[r.asked(t, "patch prototypes/status")[3]]
		o["user"], o["userAgent"] = object{"username": "system:serviceaccount:kamino-generalize:kamino-generalize"}, "curl/8"
	}},
	{9, "an unknown account writes the Lease of a reservation", "azure", func(t *testing.T, r *record) {
		o := r.audit[r.asked(t, "update leases node-"+donor)[0]]
		o["user"], o["userAgent"] = object{"username": "system:serviceaccount:shop:default"}, "curl/8"
	}},
	{9, "the engine taints a Node", "aws", func(t *testing.T, r *record) {
		for _, of := range []string{"requestObject", "responseObject"} {
			set(r.audit[r.byKamino(r.asked(t, "patch nodes "+awsTrial))[0]], []any{object{"key": "a", "effect": "NoSchedule"}}, of, "spec", "taints")
		}
	}},
	{9, "the engine labels a Node", "azure", func(t *testing.T, r *record) {
		for _, of := range []string{"requestObject", "responseObject"} {
			set(r.audit[r.byKamino(r.asked(t, "patch nodes "+donor))[0]], "a", of, "metadata", "labels", "team")
		}
	}},
}
