package judge

import (
	"cmp"
	"maps"
	"strings"
)

// thing is a resource of the cloud, as requests and answers show it.
type thing struct {
	id, kind            string // kinds: set, instance, trial, image, snapshot, template, hosts
	tags                map[string]string
	complete, gone, own bool     // as last shown; its deletion was accepted; Kamino created it
	backs, pool, guard  string   // the image that needs a snapshot; the set of an instance, and its protection from scale-in
	images              []string // of a recipe, the present image last
	size, rolling       string   // of a set; rolling is why the set changes running instances
}

// things by ID, in lower case.
type things map[string]*thing

func (t things) get(kind, id string) *thing {
	id = strings.ToLower(id)
	if t[id] == nil {
		t[id] = &thing{id: id, kind: kind, tags: map[string]string{}}
	}
	return t[id]
}

func (t *thing) image() string { return append([]string{""}, t.images...)[len(t.images)] }

func (t *thing) names(image string) {
	if image = strings.ToLower(image); image != "" && image != t.image() {
		t.images = append(t.images, image)
	}
}

// effect is what a request asks for: stop, rebuild or end an instance; delete, tag or guard a thing; resize a set, or give it a recipe.
type effect struct{ what, id, value string }

// azureKind is the kind of a resource by its ID, and the scale set of an instance.
func azureKind(id string) (kind, set string) {
	head, rest, _ := strings.Cut(id, "/providers/microsoft.compute/")
	switch p := strings.Split(rest, "/"); {
	case p[0] == "virtualmachinescalesets" && len(p) == 4:
		return "instance", head + "/providers/microsoft.compute/" + p[0] + "/" + p[1]
	case strings.HasPrefix(rest, "virtualmachinescalesets/kamino-") && len(p) == 2:
		return "trial", ""
	case len(p) == 2 || len(p) == 6:
		return map[string]string{"virtualmachinescalesets2": "set", "snapshots2": "snapshot", "disks2": "disk", "galleries6": "image"}[p[0]+text(float64(len(p)))], ""
	}
	return "", ""
}

var azureImage = []string{"properties", "virtualMachineProfile", "storageProfile", "imageReference", "id"}

func azureEffects(e event) (all []effect) {
	id := "/" + strings.ToLower(e.path)
	kind, _ := azureKind(id)
	cut := strings.LastIndex(id, "/")
	switch act, several := facts.AzureActs[id[cut+1:]], items(e.in, "instanceIds"); {
	case e.method == "DELETE":
		return []effect{{map[bool]string{true: "end", false: "delete"}[kind == "instance"], id, ""}}
	case e.method == "POST" && several == nil:
		return []effect{{act, id[:cut], ""}}
	case e.method == "POST":
		for _, n := range several {
			all = append(all, effect{act, id[:cut] + "/virtualmachines/" + text(n), ""})
		}
	case e.method != "GET":
		all = []effect{{"recipe", id, strings.ToLower(text(e.in, azureImage...))}, {"resize", id, text(e.in, "sku", "capacity")}}
	}
	return all
}

// azureSees reads the resources in an answer.
func (t things) azureSees(e event, kamino bool) {
	for _, r := range append(items(e.out, "value"), e.out) {
		kind, set := azureKind(strings.ToLower(text(r, "id")))
		if kind == "" || e.method == "DELETE" || e.method == "POST" {
			continue
		}
		s, state := t.get(kind, text(r, "id")), text(r, "properties", "provisioningState")
		s.own, s.pool, s.complete, s.gone = s.own || kamino && e.method == "PUT", set, state == "Succeeded", s.gone && state != "Succeeded"
		s.guard, s.size = cmp.Or(text(r, "properties", "protectionPolicy", "protectFromScaleIn"), "false"), text(r, "sku", "capacity")
		s.rolling = strings.TrimPrefix(text(r, "properties", "upgradePolicy", "mode"), "Manual")
		s.names(cmp.Or(text(r, azureImage...), text(at(r, azureImage[:4]...), "offer"))) // an image of the Marketplace has no ID
		if kind == "trial" {
			t.get("hosts", "hosts "+text(r, "properties", "virtualMachineProfile", "osProfile", "computerNamePrefix"))
		}
		clear(s.tags)
		for name := range part(r, "tags") {
			s.tags[name] = text(r, "tags", name)
		}
	}
}

// action of a request to AWS, such as "ec2/CreateTags".
func (e event) action() string { return strings.Join(strings.SplitN(e.path+"//", "/", 3)[:2], "/") }

func (t things) awsEffects(e event) (all []effect) {
	act, group := append(facts.AWSActs[e.action()], "", ""), strings.ToLower(text(e.in, "AutoScalingGroupName"))
	for _, id := range append(items(e.in, act[1]), at(e.in, act[1])) {
		all = append(all, effect{act[0], strings.ToLower(text(id)), ""})
	}
	if e.action() == "autoscaling/UpdateAutoScalingGroup" {
		all = append(all, effect{"recipe", group, t.templateImage(e.in)})
	}
	return append(all, effect{"resize", group, text(e.in, "DesiredCapacity")})
}

// templateImage is the image of the launch template version that a group names.
func (t things) templateImage(group any) (image string) {
	for _, spec := range []any{at(group, "LaunchTemplate"), at(group, "MixedInstancesPolicy", "LaunchTemplate", "LaunchTemplateSpecification")} {
		for _, name := range []string{"LaunchTemplateId", "LaunchTemplateName"} {
			if v := t[strings.ToLower(text(spec, name)+":"+text(spec, "Version"))]; v != nil {
				image = cmp.Or(image, v.image())
			}
		}
	}
	return image
}

func tagsOf(r any, list, name, value string) map[string]string {
	out := map[string]string{}
	for _, tag := range items(r, list) {
		out[text(tag, name)] = text(tag, value)
	}
	return out
}

// awsSees reads the resources in an answer, and what the request created or tagged.
func (t things) awsSees(e event, kamino bool) {
	out := object{}
	for _, response := range e.out {
		out, _ = response.(object)
	}
	for _, r := range append(items(out, "reservationSet"), out) {
		for _, list := range [][5]string{
			{"imagesSet", "image", "imageId", "imageState", "available disabled"}, // a quarantine disables a whole image
			{"snapshotSet", "snapshot", "snapshotId", "status", "completed"},
			{"instancesSet", "instance", "instanceId"},
		} {
			for _, r := range items(r, list[0]) {
				t.awsCreated(list[1], text(r, list[2]), kamino && e.action() == "ec2/RunInstances", r, "blockDeviceMapping", "ebs",
					"snapshotId").complete = text(r, list[3]) != "" && strings.Contains(list[4], text(r, list[3]))
			}
		}
	}
	for _, v := range append(items(out, "launchTemplateVersionSet"), at(out, "launchTemplateVersion")) {
		for _, name := range []string{"launchTemplateId", "launchTemplateName"} {
			t.get("template", text(v, name)+":"+text(v, "versionNumber")).names(text(v, "launchTemplateData", "imageId"))
		}
	}
	for _, g := range items(out, "DescribeAutoScalingGroupsResult", "AutoScalingGroups") {
		s := t.get("set", text(g, "AutoScalingGroupName"))
		s.size = text(g, "DesiredCapacity")
		s.names(t.templateImage(g))
		for _, i := range items(g, "Instances") {
			m := t.get("instance", text(i, "InstanceId"))
			m.pool, m.guard = s.id, text(i, "ProtectedFromScaleIn")+map[bool]string{true: " Standby"}[strings.HasSuffix(text(i, "LifecycleState"), "Standby")]
		}
	}
	for _, r := range items(out, "DescribeInstanceRefreshesResult", "InstanceRefreshes") {
		t.get("set", text(r, "AutoScalingGroupName")).rolling = map[string]string{"Pending": "refresh", "InProgress": "refresh"}[text(r, "Status")]
	}
	for kind, id := range map[string]string{"snapshot": text(out, "snapshotId"), "image": text(out, "imageId")} {
		if id != "" && (e.action() == "ec2/CreateSnapshot" || e.action() == "ec2/RegisterImage") {
			t.awsCreated(kind, id, kamino, e.in, "BlockDeviceMapping", "Ebs", "SnapshotId")
		}
	}
}

// awsCreated reads the tags of a resource, or of the request that creates it, and the snapshots that the resource needs.
func (t things) awsCreated(kind, id string, own bool, r any, devices, device, snapshot string) *thing {
	s := t.get(kind, id)
	s.own = s.own || own
	maps.Copy(s.tags, tagsOf(r, "tagSet", "key", "value"))
	for _, spec := range items(r, "TagSpecification") {
		maps.Copy(s.tags, tagsOf(spec, "Tag", "Key", "Value"))
	}
	s.pool = cmp.Or(strings.ToLower(s.tags["aws:autoscaling:groupName"]), s.pool)
	for _, d := range items(r, devices) {
		t.get("snapshot", text(d, device, snapshot)).backs = s.id
	}
	return s
}
