package realcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// refusal is a call that the guard does not send.
type refusal struct{ action, why string }

func (r *refusal) Error() string {
	return fmt.Sprintf("refused to call %s: %s. Nothing was sent", r.action, r.why)
}

// guard is the only way to the cloud. It refuses changes outside the tag of the run, and what costs more than the price says.
type guard struct {
	wire *wire
	// run and end are the tags; end is also the time after which only deletions are sent.
	run string
	end time.Time
	now func() time.Time
	// hasTag asks the cloud whether a resource has the tag of the run.
	hasTag func(ctx context.Context, id string) (bool, error)

	mu    sync.Mutex
	owned map[string]bool
}

var _ sdk.HTTPClient = (*guard)(nil)

// resourceID matches the ID of a resource, without the text around it.
var resourceID = regexp.MustCompile(`^[a-z]+-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)

// Do implements aws.HTTPClient.
func (g *guard) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, &refusal{r.URL.Path, "the request is no form"}
	}
	action := form.Get("Action")
	does, known := rules[action]
	if !known {
		return nil, &refusal{action, "the program has no such call"}
	}
	if does.effect != reads {
		if err := g.admit(r.Context(), action, does, form); err != nil {
			return nil, err
		}
	}
	sent := r.Clone(r.Context())
	sent.Body = io.NopCloser(bytes.NewReader(body))
	return g.wire.send(sent, action, does, form)
}

// admit refuses a change outside the tag, after the end, or beyond a limit.
func (g *guard) admit(ctx context.Context, action string, does rule, form url.Values) error {
	in := query.Parse(form)
	removes := strings.HasPrefix(action, "Delete") || action == "TerminateInstances" || action == "DeregisterImage"
	switch {
	case g.run == "":
		return &refusal{action, "the run has no name"}
	case !removes && !g.now().Before(g.end):
		return &refusal{action, "the run ended at " + g.end.Format(time.RFC3339) + "; run `verify-cloud clean`"}
	}
	if does.limit != nil {
		if err := does.limit(in); err != nil {
			return &refusal{action, err.Error()}
		}
	}
	if err := g.admitNew(action, does, in); err != nil {
		return err
	}
	return g.admitOld(ctx, action, does, form)
}

// admitNew refuses to make what lacks the tags of the run.
func (g *guard) admitNew(action string, does rule, in *query.Value) error {
	if does.tagged != "" && !g.tags(in, does.tagged) {
		return &refusal{action, "the new " + does.tagged + " lacks the tags of the run"}
	}
	if at := in.At("LaunchTemplateData"); at != nil && (!g.tags(at, "instance") || !g.tags(at, "volume") || !g.tags(at, "network-interface")) {
		return &refusal{action, "the template does not give the tags of the run to instances, volumes and network interfaces"}
	}
	return nil
}

// admitOld refuses to name what lacks the tag of the run, in any parameter.
func (g *guard) admitOld(ctx context.Context, action string, does rule, form url.Values) error {
	if does.service == "autoscaling" {
		switch name := form.Get("AutoScalingGroupName"); {
		case name != g.name():
			return &refusal{action, fmt.Sprintf("the group %q is not of the run", name)}
		case does.effect == changes && !g.owns(ctx, name):
			return &refusal{action, "the group has no tag " + TagRun + "=" + g.run}
		}
	}
	named := 0
	for _, key := range slices.Sorted(maps.Keys(form)) {
		for _, id := range strings.Split(form.Get(key), ",") {
			if !resourceID.MatchString(id) || slices.Contains(does.foreign, key) {
				continue
			}
			if named++; !g.owns(ctx, id) {
				return &refusal{action, id + " has no tag " + TagRun + "=" + g.run}
			}
		}
	}
	if does.effect == changes && does.service == "ec2" && named == 0 {
		return &refusal{action, "it names no resource"}
	}
	return nil
}

// name of the run's group and template.
func (g *guard) name() string { return TagRun + "-" + g.run }

// tags reports whether a request gives a new resource of a type both tags of the run.
func (g *guard) tags(in *query.Value, kind string) bool {
	all := in.List("Tags")
	for _, spec := range in.List("TagSpecification") {
		if spec.Get("ResourceType") == kind {
			all = append(all, spec.List("Tag")...)
		}
	}
	has := func(key, value string) bool {
		return slices.ContainsFunc(all, func(t *query.Value) bool { return t.Get("Key") == key && t.Get("Value") == value })
	}
	return has(TagRun, g.run) && has(TagEnd, g.end.Format(time.RFC3339))
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

// isRefusal reports whether the guard stopped a call.
func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}
