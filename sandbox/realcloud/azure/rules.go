package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// rule says what a call may do.
type rule struct {
	method string
	// path from the subscription on. "*" is any name; "GROUP" is the run's group.
	path   string
	effect realcloud.Effect
	// permissions are the actions that Azure asks for, those on named resources included.
	permissions []string
	// tagged: the body must have the tags of the run.
	tagged bool
	// limit refuses what costs too much, or what leaves the group; nil for nothing.
	limit func(name string, body object) error
	// keep shortens the answer for the report.
	keep func(string) string
}

const (
	// Addresses of the states of operations.
	operationPath = "providers/*/locations/*/*/*"
	deletionPath  = "operationresults/*"

	compute = "GROUP/providers/Microsoft.Compute/"
	setPath = compute + "virtualMachineScaleSets/*"
	vmPath  = setPath + "/virtualMachines/*"
)

func mc(actions ...string) []string {
	for n, a := range actions {
		actions[n] = "Microsoft.Compute/" + a
	}
	return actions
}

var (
	groupRead  = []string{"Microsoft.Resources/subscriptions/resourceGroups/read"}
	setRead    = mc("virtualMachineScaleSets/read")
	vmRead     = mc("virtualMachineScaleSets/virtualMachines/read")
	imageRead  = mc("galleries/images/read")
	joinSubnet = "Microsoft.Network/virtualNetworks/subnets/join/action"
)

// rules are all calls of the program. The guard refuses all others.
var rules = []rule{
	{method: http.MethodGet, path: "", permissions: []string{"Microsoft.Resources/subscriptions/read"}, keep: nothing},
	{method: http.MethodGet, path: "resourceGroups", permissions: groupRead},
	{method: http.MethodGet, path: "GROUP", permissions: groupRead},
	{method: http.MethodGet, path: "GROUP/providers/Microsoft.Network/virtualNetworks/*", permissions: []string{"Microsoft.Network/virtualNetworks/read"}},
	{method: http.MethodGet, path: compute + "galleries/*", permissions: mc("galleries/read")},
	{method: http.MethodGet, path: compute + "galleries/*/images/*", permissions: imageRead},
	{method: http.MethodGet, path: compute + "galleries/*/images/*/versions/*", permissions: mc("galleries/images/versions/read")},
	{method: http.MethodGet, path: compute + "snapshots/*", permissions: mc("snapshots/read")},
	{method: http.MethodGet, path: compute + "disks/*", permissions: mc("disks/read")},
	{method: http.MethodGet, path: setPath, permissions: setRead},
	{method: http.MethodGet, path: setPath + "/virtualMachines", permissions: vmRead},
	{method: http.MethodGet, path: vmPath, permissions: vmRead},
	{method: http.MethodGet, path: vmPath + "/instanceView", permissions: mc("virtualMachineScaleSets/virtualMachines/instanceView/read")},
	{method: http.MethodPost, path: vmPath + "/retrieveBootDiagnosticsData", keep: nothing,
		permissions: mc("virtualMachineScaleSets/virtualMachines/retrieveBootDiagnosticsData/action")},
	{method: http.MethodGet, path: operationPath},
	{method: http.MethodGet, path: deletionPath},

	{method: http.MethodPut, path: "GROUP", effect: realcloud.Creates, tagged: true,
		permissions: []string{"Microsoft.Resources/subscriptions/resourceGroups/write"}},
	{method: http.MethodPut, path: "GROUP/providers/Microsoft.Network/virtualNetworks/*", effect: realcloud.Creates, tagged: true,
		permissions: []string{"Microsoft.Network/virtualNetworks/write"}},
	{method: http.MethodPut, path: compute + "galleries/*", effect: realcloud.Creates, tagged: true, permissions: mc("galleries/write")},
	{method: http.MethodPut, path: compute + "galleries/*/images/*", effect: realcloud.Creates, tagged: true, permissions: mc("galleries/images/write")},
	{method: http.MethodPut, path: compute + "galleries/*/images/*/versions/*", effect: realcloud.Creates, tagged: true, limit: versionLimit,
		permissions: mc("galleries/images/versions/write", "snapshots/read", "disks/beginGetAccess/action")},
	{method: http.MethodPut, path: compute + "snapshots/*", effect: realcloud.Creates, tagged: true, limit: copyLimit,
		permissions: mc("snapshots/write", "disks/read", "disks/beginGetAccess/action")},
	{method: http.MethodPut, path: compute + "disks/*", effect: realcloud.Creates, tagged: true, limit: copyLimit,
		permissions: mc("disks/write", "snapshots/read", "disks/beginGetAccess/action")},
	{method: http.MethodPut, path: setPath, effect: realcloud.Creates, tagged: true, limit: setLimit,
		permissions: append(mc("virtualMachineScaleSets/write", "galleries/images/versions/read"), joinSubnet)},
	{method: http.MethodPatch, path: setPath, effect: realcloud.Changes, limit: setLimit,
		permissions: append(mc("virtualMachineScaleSets/write", "galleries/images/versions/read"), joinSubnet)},
	{method: http.MethodPut, path: vmPath, effect: realcloud.Changes, permissions: mc("virtualMachineScaleSets/virtualMachines/write")},
	{method: http.MethodPost, path: vmPath + "/attachDetachDataDisks", effect: realcloud.Changes,
		permissions: mc("virtualMachineScaleSets/virtualMachines/attachDetachDataDisks/action", "disks/write")},
	{method: http.MethodPost, path: vmPath + "/powerOff", effect: realcloud.Changes, permissions: mc("virtualMachineScaleSets/virtualMachines/powerOff/action")},
	{method: http.MethodPost, path: vmPath + "/start", effect: realcloud.Changes, permissions: mc("virtualMachineScaleSets/virtualMachines/start/action")},
	{method: http.MethodPost, path: setPath + "/manualupgrade", effect: realcloud.Changes, permissions: mc("virtualMachineScaleSets/manualUpgrade/action")},

	{method: http.MethodDelete, path: setPath, effect: realcloud.Removes, permissions: mc("virtualMachineScaleSets/delete")},
	{method: http.MethodDelete, path: "GROUP", effect: realcloud.Removes,
		permissions: []string{"Microsoft.Resources/subscriptions/resourceGroups/delete"}},
}

// blob is the rule for the log of a console, at an address that Azure has named. It is no request to Resource Manager.
var blob = rule{method: http.MethodGet, path: "the log of a console", keep: keepLines}

// nothing of an answer goes into the report: the name of the subscription, or an address with a signature.
func nothing(string) string { return "" }

// match compares a path with that of a rule, and returns its last name.
func (r rule) match(path []string, group string) (name string, is bool) {
	want := strings.Split(strings.Replace(r.path, "GROUP", "resourceGroups/"+group, 1), "/")
	if r.path == "" {
		want = nil
	}
	if len(want) != len(path) {
		return "", false
	}
	for n, w := range want {
		if w == "*" {
			name = path[n]
		} else if !strings.EqualFold(w, path[n]) {
			return "", false
		}
	}
	return name, true
}

// action names a call: its method and the kind of the resource.
func (r rule) action() string {
	path := strings.TrimPrefix(strings.TrimPrefix(r.path, compute), "GROUP/providers/")
	switch path {
	case "":
		path = "the subscription"
	case "GROUP":
		path = "the resource group"
	case operationPath, deletionPath:
		path = "the state of an operation"
	}
	return r.method + " " + strings.ReplaceAll(path, "/*", "")
}

// detail is what Admit needs of a request.
type detail struct {
	rule
	name string
	body object
}

// Identify implements realcloud.Session.
func (s *session) Identify(r *http.Request, body []byte) (realcloud.Request, error) {
	s.mu.Lock()
	isConsole := s.consoles[r.URL.Host+r.URL.Path]
	s.mu.Unlock()
	if isConsole && r.Method == http.MethodGet {
		return realcloud.Request{Action: blob.action(), Effect: realcloud.Reads, Keep: blob.keep}, nil
	}
	whole := r.Method + " " + r.URL.Path
	if !strings.HasPrefix(r.URL.String(), strings.TrimSuffix(s.client.Endpoint(), "/")+"/") {
		return realcloud.Request{}, realcloud.Refuse(whole, "it is not for Resource Manager")
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(path) < 2 || !strings.EqualFold(path[0], "subscriptions") || !strings.EqualFold(path[1], s.subscription) || strings.Contains(r.URL.Path, "..") {
		return realcloud.Request{}, realcloud.Refuse(whole, "it is not for the subscription")
	}
	for _, does := range rules {
		name, is := does.match(path[2:], s.Name())
		if !is || does.method != r.Method {
			continue
		}
		d := detail{does, name, nil}
		if len(body) > 0 && json.Unmarshal(body, &d.body) != nil {
			return realcloud.Request{}, realcloud.Refuse(does.action(), "the body is no object")
		}
		return realcloud.Request{Action: does.action(), Permission: strings.Join(does.permissions, ", "), Effect: does.effect, Detail: d, Keep: does.keep,
			Form: map[string]any{"path": r.URL.Path, "query": r.URL.RawQuery, "if": r.Header.Get("If-Match") + r.Header.Get("If-None-Match"),
				"body": requestlog.Structured(string(body))}}, nil
	}
	return realcloud.Request{}, realcloud.Refuse(whole, "the program has no such call, or it is outside the group %s", s.Name())
}

// Admit implements realcloud.Session.
func (s *session) Admit(ctx context.Context, r realcloud.Request) error {
	d := r.Detail.(detail)
	if d.tagged {
		for key, value := range s.Tags() {
			if text(d.body, "tags", key) != value {
				return realcloud.Refuse(r.Action, "the body lacks the tags of the run")
			}
		}
	}
	if err := s.inside(d.body); err != nil {
		return realcloud.Refuse(r.Action, "%s", err)
	}
	if d.limit != nil {
		if err := d.limit(d.name, d.body); err != nil {
			return realcloud.Refuse(r.Action, "%s", err)
		}
	}
	return s.admitGroup(ctx, r)
}

// admitGroup refuses a group that is there without the tag. Before its deletion, Azure is asked again.
func (s *session) admitGroup(ctx context.Context, r realcloud.Request) error {
	s.mu.Lock()
	known := s.owned
	s.mu.Unlock()
	if known && r.Effect != realcloud.Removes {
		return nil
	}
	found, err := s.find(ctx, s.group())
	switch {
	case err != nil:
		return err
	case found == nil && strings.HasSuffix(r.Action, "the resource group") && r.Effect == realcloud.Creates:
		return nil
	case text(found, "tags", realcloud.TagRun) != s.Run:
		return realcloud.Refuse(r.Action, "the group %s has no tag %s=%s", s.Name(), realcloud.TagRun, s.Run)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned = true
	return nil
}

// forbidden are parts of a body that would open the machines, give them rights, or share images.
var forbidden = []string{"identity", "publicIPAddressConfiguration", "publicIPAddress", "loadBalancerBackendAddressPools", "sharingProfile", "secrets",
	"adminPassword", "userData", "diskEncryptionSet", "resourceGuardOperationRequests"}

// inside refuses a body that names something outside the run's group.
func (s *session) inside(body object) (err error) {
	walk("", body, func(key string, v any) {
		id, is := v.(string)
		switch {
		case v != nil && slices.Contains(forbidden, key):
			err = fmt.Errorf("the body has %s", key)
		case is && strings.HasPrefix(strings.ToLower(id), "/subscriptions/") && !strings.HasPrefix(strings.ToLower(id), strings.ToLower(s.group())+"/"):
			err = errors.New("the body names " + id + ", which is outside the group")
		}
	})
	return err
}

// setLimit holds a scale set to a few small machines from a public image of Ubuntu, or from the run's gallery.
func setLimit(name string, body object) error {
	most := map[string]float64{poolName: maxPool, trialName: 1}[name]
	if size := text(body, "sku", "name"); size != "" && size != smallSize {
		return fmt.Errorf("the size %q is not %s", size, smallSize)
	}
	if n, is := at(body, "sku", "capacity").(float64); is && n > most {
		return fmt.Errorf("%.0f machines of the scale set %q", n, name)
	}
	storage := at(body, "properties", "virtualMachineProfile", "storageProfile")
	profile, _ := storage.(object)
	if n, is := at(profile, "osDisk", "diskSizeGB").(float64); is && n > maxSize {
		return fmt.Errorf("a disk of %.0f GiB", n)
	}
	if len(list(profile, "dataDisks")) > 0 {
		return errors.New("the scale set has data disks")
	}
	if publisher := text(profile, "imageReference", "publisher"); publisher != "" && publisher != "Canonical" {
		return fmt.Errorf("an image of %s", publisher)
	}
	for _, e := range list(body, "properties", "virtualMachineProfile", "extensionProfile", "extensions") {
		if text(e, "properties", "type") != healthType {
			return fmt.Errorf("the extension %q", text(e, "properties", "type"))
		}
	}
	return nil
}

// copyLimit allows copies of the run's disks alone.
func copyLimit(_ string, body object) error {
	if option := text(body, "properties", "creationData", "createOption"); option != "Copy" {
		return fmt.Errorf("a disk by %q", option)
	}
	if _, sized := at(body, "properties", "diskSizeGB").(float64); sized {
		return errors.New("a copy of another size")
	}
	return nil
}

// versionLimit allows one copy of a version, in one region.
func versionLimit(_ string, body object) error {
	profile, _ := at(body, "properties", "publishingProfile").(object)
	regions := list(profile, "targetRegions")
	if n, _ := at(profile, "replicaCount").(float64); n != 1 || len(regions) != 1 || len(regions[0]) != 1 {
		return fmt.Errorf("a version with %d regions or more than one copy", len(regions))
	}
	return nil
}

// Problem implements realcloud.Session.
func (s *session) Problem(answer []byte) (code, message string) {
	var doc struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(answer, &doc) != nil {
		return "", ""
	}
	return doc.Error.Code, operationID.ReplaceAllString(doc.Error.Message, "$1 ID")
}

// operationID is what Azure adds to a text, and what differs each time.
var operationID = regexp.MustCompile(`(?i)((?:tracking|request|correlation|activity) ?id:?|current etag is) '?"?[\w-]+"?'?`)

// roleOf is a custom role with what a run needs. Azure has no conditions on tags for these actions: the guard holds the run to its group.
func roleOf(string) ([]byte, error) {
	return json.MarshalIndent(map[string]any{"Name": "Kamino verify-cloud", "IsCustom": true,
		"Description": "What a run of verify-cloud needs. Make a subscription of its own for it, or trust the program's guard.",
		"Actions":     Cloud().Permissions, "NotActions": []string{}, "AssignableScopes": []string{"/subscriptions/SUBSCRIPTION"}}, "", "  ")
}
