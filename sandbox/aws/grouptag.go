package aws

import (
	"slices"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// groupTags are tags of groups.
type groupTags struct{ *backend }

func (s groupTags) actions() []*action {
	return []*action{
		{name: "CreateOrUpdateTags", noun: "tag", handle: s.create},
		{name: "DeleteTags", noun: "tag", handle: s.delete},
		{name: "DescribeTags", noun: "tag", reads: true, handle: s.describe},
	}
}

// tagOf is a tag of a named group.
type tagOf struct {
	groupTag
	group string
}

func groupTagsIn(in *query.Value) ([]tagOf, *problem) {
	if _, p := tagsIn(&query.Value{Parts: map[string]*query.Value{"Tag": in.At("Tags")}}, "Tag"); p != nil && in.Has("Tags") {
		return nil, invalid("%s", p.Text)
	}
	var out []tagOf
	for _, t := range in.List("Tags") {
		if kind := t.Get("ResourceType"); kind != "" && kind != "auto-scaling-group" {
			return nil, invalid("The resource type %s is not valid", kind)
		}
		out = append(out, tagOf{groupTag{t.Get("Key"), t.Get("Value"), t.True("PropagateAtLaunch")}, t.Get("ResourceId")})
	}
	return out, nil
}

// wanted returns the tags of a call. All groups must exist.
func (s groupTags) wanted(c *call, st *state) ([]tagOf, *problem) {
	all, p := groupTagsIn(c.in)
	if p != nil {
		return nil, p
	}
	for _, t := range all {
		if st.Groups[t.group] == nil {
			return nil, invalid("AutoScalingGroup name not found - AutoScalingGroup %s not found", t.group)
		}
	}
	return all, nil
}

func (s groupTags) create(c *call, st *state) (query.Element, error) {
	all, p := s.wanted(c, st)
	if p != nil {
		return query.Element{}, p
	}
	for _, t := range all {
		g := st.Groups[t.group]
		g.Tags = slices.DeleteFunc(g.Tags, func(old groupTag) bool { return old.Key == t.Key })
		g.Tags = append(g.Tags, t.groupTag)
	}
	return query.Element{}, nil
}

func (s groupTags) delete(c *call, st *state) (query.Element, error) {
	all, p := s.wanted(c, st)
	if p != nil {
		return query.Element{}, p
	}
	for _, t := range all {
		g := st.Groups[t.group]
		g.Tags = slices.DeleteFunc(g.Tags, func(old groupTag) bool { return old.Key == t.Key })
	}
	return query.Element{}, nil
}

func (s groupTags) describe(c *call, st *state) (query.Element, error) {
	type one struct {
		g *group
		t groupTag
	}
	var all []one
	filters := c.in.List("Filters")
	for _, g := range sortedGroups(st) {
		for _, t := range g.Tags {
			fitting := true
			for _, f := range filters {
				has := map[string]string{"auto-scaling-group": g.Name, "key": t.Key, "value": t.Value,
					"propagate-at-launch": map[bool]string{true: "true", false: "false"}[t.Propagate]}
				fitting = fitting && slices.Contains(f.Texts("Values"), has[f.Get("Name")])
			}
			if fitting {
				all = append(all, one{g, t})
			}
		}
	}
	return listed(s.backend, c, "Tags", all, 0, 100, func(o one) query.Element { return tagElement(o.g, o.t) })
}

func tagElement(g *group, t groupTag) query.Element {
	return query.Of("", query.Text("ResourceId", g.Name), query.Text("ResourceType", "auto-scaling-group"), query.Text("Key", t.Key),
		query.Element{Name: "Value", Text: t.Value}, query.Bool("PropagateAtLaunch", t.Propagate))
}
