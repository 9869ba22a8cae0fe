package aws

import (
	"maps"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// maxTags is how many tags a resource has at most; those of AWS's own do not count.
const maxTags = 50

// tags reads and writes tags of all resources.
type tags struct{ *backend }

func (s tags) actions() []*action {
	return []*action{
		{name: "CreateTags", noun: "tag", handle: s.create},
		{name: "DeleteTags", noun: "tag", handle: s.delete},
		{name: "DescribeTags", noun: "tag", reads: true, handle: s.describe},
	}
}

// tagsIn reads a list of tags.
func tagsIn(in *query.Value, path string) (map[string]string, *problem) {
	out := map[string]string{}
	for _, t := range in.List(path) {
		key, value := t.Get("Key"), t.Get("Value")
		switch {
		case key == "" || len(key) > 128:
			return nil, bad("InvalidParameterValue", "Tag key must have a length between 1 and 128 characters.")
		case len(value) > 256:
			return nil, bad("InvalidParameterValue", "Tag value exceeds the maximum length of 256 characters: '%s'.", key)
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return nil, bad("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
		}
		if _, twice := out[key]; twice {
			return nil, bad("InvalidParameterValue", "Duplicate tag key '%s' specified.", key)
		}
		out[key] = value
	}
	return out, tooMany(out)
}

func tooMany(all map[string]string) *problem {
	n := 0
	for key := range all {
		if !strings.HasPrefix(key, "aws:") {
			n++
		}
	}
	if n > maxTags {
		return bad("TagLimitExceeded", "The maximum number of tags for a resource (%d) has been reached.", maxTags)
	}
	return nil
}

// tagsFor are the tags that a request orders for a type of resource.
func tagsFor(in *query.Value, kinds ...string) (map[string]string, *problem) {
	out := map[string]string{}
	for _, s := range in.List("TagSpecification") {
		got, p := tagsIn(s, "Tag")
		if p != nil {
			return nil, p
		}
		if slices.Contains(kinds, s.Get("ResourceType")) {
			maps.Copy(out, got)
		}
	}
	return out, tooMany(out)
}

// tagsOnly is tagsFor where the request makes nothing else.
func tagsOnly(in *query.Value, kinds ...string) (map[string]string, *problem) {
	for _, s := range in.List("TagSpecification") {
		if kind := s.Get("ResourceType"); !slices.Contains(kinds, kind) {
			return nil, bad("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind)
		}
	}
	return tagsFor(in, kinds...)
}

func tagSet(all map[string]string) query.Element {
	return query.List("tagSet", "item", slices.Sorted(maps.Keys(all)), func(key string) query.Element {
		// An empty value is shown, too.
		return query.Of("", query.Text("key", key), query.Element{Name: "value", Text: all[key]})
	})
}

// targets returns all resources of a request, or an error.
func (s tags) targets(st *state, c *call) ([]owned, *problem) {
	ids := c.in.Texts("ResourceId")
	if len(ids) == 0 {
		return nil, missing("resourceIdSet")
	}
	var out []owned
	for _, id := range ids {
		o, _ := st.owned(id)
		if o == nil || !s.sees(o) {
			return nil, notFoundByID(id)
		}
		if p := s.changeable(c, o); p != nil {
			return nil, p
		}
		out = append(out, o)
	}
	return out, nil
}

// notFoundByID is EC2's error for an unknown ID. The prefix of the ID gives the type.
func notFoundByID(id string) *problem {
	kind, _, _ := strings.Cut(id, "-")
	code, noun := "InvalidID", "ID"
	switch kind {
	case "i":
		return noInstance(id)
	case "vol":
		return noVolume(id)
	case "snap":
		return noSnapshot(id)
	case "ami":
		return noImage(id)
	case "lt":
		code, noun = "InvalidLaunchTemplateId", "launch template ID"
	case "vpc":
		code, noun = "InvalidVpcID", "vpc ID"
	case "subnet":
		code, noun = "InvalidSubnetID", "subnet ID"
	case "eni":
		code, noun = "InvalidNetworkInterfaceID", "networkInterface ID"
	}
	return bad(code+".NotFound", "The %s '%s' does not exist", noun, id)
}

func (s tags) create(c *call, st *state) (query.Element, error) {
	targets, p := s.targets(st, c)
	if p != nil {
		return query.Element{}, p
	}
	added, p := tagsIn(c.in, "Tag")
	if p != nil {
		return query.Element{}, p
	}
	if len(added) == 0 {
		return query.Element{}, missing("tagSet")
	}
	for _, o := range targets {
		both := maps.Clone(o.base().Tags)
		maps.Copy(both, added)
		if p := tooMany(both); p != nil {
			return query.Element{}, p
		}
	}
	for _, o := range targets {
		maps.Copy(o.base().Tags, added)
	}
	return done(), nil
}

func (s tags) delete(c *call, st *state) (query.Element, error) {
	targets, p := s.targets(st, c)
	if p != nil {
		return query.Element{}, p
	}
	wanted := c.in.List("Tag")
	for _, o := range targets {
		all := o.base().Tags
		if len(wanted) == 0 {
			maps.DeleteFunc(all, func(key, _ string) bool { return !strings.HasPrefix(key, "aws:") })
		}
		for _, t := range wanted {
			// If the request has a value, only a tag with this value is deleted.
			if value, there := all[t.Get("Key")]; there && (!t.Has("Value") || t.Get("Value") == value) {
				delete(all, t.Get("Key"))
			}
		}
	}
	return done(), nil
}

// tagged is a line of DescribeTags.
type tagged struct{ id, kind, key, value string }

func (s tags) describe(c *call, st *state) (query.Element, error) {
	var all []tagged
	for _, id := range slices.Sorted(st.ids()) {
		o, kind := st.owned(id)
		if !s.sees(o) {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(o.base().Tags)) {
			all = append(all, tagged{id, kind, key, o.base().Tags[key]})
		}
	}
	all, p := filtered(c, all, map[string]func(tagged) []string{
		"resource-id": func(t tagged) []string { return []string{t.id} }, "resource-type": func(t tagged) []string { return []string{t.kind} },
		"key": func(t tagged) []string { return []string{t.key} }, "value": func(t tagged) []string { return []string{t.value} },
	}, nil)
	if p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "tagSet", all, 5, 1000, func(t tagged) query.Element {
		return query.Of("", query.Text("resourceId", t.id), query.Text("resourceType", t.kind), query.Text("key", t.key),
			query.Element{Name: "value", Text: t.value})
	})
}

// ids returns the IDs of all resources that can have tags.
func (st *state) ids() func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, keys := range []func(func(string) bool){
			maps.Keys(st.Instances), st.interfaces(), maps.Keys(st.Volumes), maps.Keys(st.Snapshots), maps.Keys(st.Images),
			maps.Keys(st.Templates), maps.Keys(st.Roots), maps.Keys(st.Networks), maps.Keys(st.Subnets),
		} {
			for id := range keys {
				if !yield(id) {
					return
				}
			}
		}
	}
}
