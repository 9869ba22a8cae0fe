package aws

import (
	"context"
	"encoding/xml"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
	"github.com/kamino-dev/kamino/sandbox/realcloud"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// guard knows what belongs to the run.
type guard struct {
	// hasTag asks the cloud whether a resource has the tag of the run.
	hasTag func(ctx context.Context, id string) (bool, error)

	mu    sync.Mutex
	owned map[string]bool
}

// resourceID matches the ID of a resource, without the text around it.
var resourceID = regexp.MustCompile(`^[a-z]+-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)

// Identify implements realcloud.Session.
func (s *session) Identify(r *http.Request, body []byte) (realcloud.Request, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return realcloud.Request{}, realcloud.Refuse(r.URL.Path, "the request is no form")
	}
	action := form.Get("Action")
	does, known := rules[action]
	if !known {
		return realcloud.Request{}, realcloud.Refuse(action, "the program has no such call")
	}
	effect := does.effect
	if strings.HasPrefix(action, "Delete") || action == "TerminateInstances" || action == "DeregisterImage" {
		effect = realcloud.Removes
	}
	return realcloud.Request{Action: action, Permission: does.permission(action), Effect: effect,
		Form: requestlog.Structured(form.Encode()), Detail: form}, nil
}

// Admit implements realcloud.Session.
func (s *session) Admit(ctx context.Context, r realcloud.Request) error {
	does, form := rules[r.Action], r.Detail.(url.Values)
	in := query.Parse(form)
	if does.limit != nil {
		if err := does.limit(in); err != nil {
			return realcloud.Refuse(r.Action, "%s", err)
		}
	}
	if err := s.admitNew(r.Action, does, in); err != nil {
		return err
	}
	return s.admitOld(ctx, r.Action, does, form)
}

// admitNew refuses to make what lacks the tags of the run.
func (s *session) admitNew(action string, does rule, in *query.Value) error {
	if does.tagged != "" && !hasTags(s, in, does.tagged) {
		return realcloud.Refuse(action, "%s", "the new "+does.tagged+" lacks the tags of the run")
	}
	if at := in.At("LaunchTemplateData"); at != nil && (!hasTags(s, at, "instance") || !hasTags(s, at, "volume") || !hasTags(s, at, "network-interface")) {
		return realcloud.Refuse(action, "%s", "the template does not give the tags of the run to instances, volumes and network interfaces")
	}
	return nil
}

// admitOld refuses to name what lacks the tag of the run, in any parameter.
func (s *session) admitOld(ctx context.Context, action string, does rule, form url.Values) error {
	if does.service == "autoscaling" {
		switch name := form.Get("AutoScalingGroupName"); {
		case name != s.Name():
			return realcloud.Refuse(action, "the group %q is not of the run", name)
		case does.effect == realcloud.Changes && !s.owns(ctx, name):
			return realcloud.Refuse(action, "%s", "the group has no tag "+realcloud.TagRun+"="+s.Run)
		}
	}
	named := 0
	for _, key := range slices.Sorted(maps.Keys(form)) {
		for _, id := range strings.Split(form.Get(key), ",") {
			if !resourceID.MatchString(id) || slices.Contains(does.foreign, key) {
				continue
			}
			if named++; !s.owns(ctx, id) {
				return realcloud.Refuse(action, "%s", id+" has no tag "+realcloud.TagRun+"="+s.Run)
			}
		}
	}
	if does.effect == realcloud.Changes && does.service == "ec2" && named == 0 {
		return realcloud.Refuse(action, "%s", "it names no resource")
	}
	return nil
}

// hasTags reports whether a request gives a new resource of a type both tags of the run.
func hasTags(s *session, in *query.Value, kind string) bool {
	all := in.List("Tags")
	for _, spec := range in.List("TagSpecification") {
		if spec.Get("ResourceType") == kind {
			all = append(all, spec.List("Tag")...)
		}
	}
	has := func(key, value string) bool {
		return slices.ContainsFunc(all, func(t *query.Value) bool { return t.Get("Key") == key && t.Get("Value") == value })
	}
	return has(realcloud.TagRun, s.Run) && has(realcloud.TagEnd, s.End.Format(time.RFC3339))
}

// owns reports whether the cloud shows the tag of the run on a resource. What is new takes a while to be shown.
func (g *guard) owns(ctx context.Context, id string) bool {
	g.mu.Lock()
	known := g.owned[id]
	g.mu.Unlock()
	if known {
		return true
	}
	is, err := g.hasTag(ctx, id)
	if err != nil || !is {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owned[id] = true
	return true
}

// Problem implements realcloud.Session: the code and the text of an error in the form of EC2 or of the query protocol.
func (s *session) Problem(text []byte) (code, message string) {
	type problem struct {
		Code, Message string
	}
	var both struct {
		EC2   problem `xml:"Errors>Error"`
		Query problem `xml:"Error"`
	}
	if xml.Unmarshal(text, &both) != nil {
		return "", ""
	}
	if both.EC2.Code != "" {
		return both.EC2.Code, both.EC2.Message
	}
	return both.Query.Code, both.Query.Message
}
