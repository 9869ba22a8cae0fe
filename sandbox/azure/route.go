package azure

import (
	"net/http"
	"regexp"
	"strings"
)

const computeNamespace = "Microsoft.Compute"

// route ties a method and a path to a handler. Segments in braces match anything, "{scope...}" any number of
// them; all others are compared without regard to case.
type route struct {
	method  string
	pattern string
	// noun and operation are the names for faults.
	noun, operation string
	// action is the required permission.
	action string
	handle func(*call) (*reply, error)

	segments []string
}

// Prefixes of routes.
const (
	subscriptionPath = "/subscriptions/{subscription}"
	groupPath        = subscriptionPath + "/resourceGroups/{group}"
	computePath      = groupPath + "/providers/Microsoft.Compute"
	galleryPath      = computePath + "/galleries/{gallery}"
	definitionPath   = galleryPath + "/images/{definition}"
	versionPath      = definitionPath + "/versions/{version}"
	snapshotPath     = computePath + "/snapshots/{snapshot}"
	diskPath         = computePath + "/disks/{disk}"
	scaleSetPath     = computePath + "/virtualMachineScaleSets/{scaleset}"
	instancePath     = scaleSetPath + "/virtualMachines/{instance}"
	vmPath           = computePath + "/virtualMachines/{vm}"
	extensionPath    = scaleSetPath + "/extensions/{extension}"
)

// resourceKind is a kind of resource with its requests.
type resourceKind interface{ routes() []*route }

// routes are all simulated routes.
func routes(nouns []resourceKind) []*route {
	var all []*route
	for _, n := range nouns {
		all = append(all, n.routes()...)
	}
	for _, r := range all {
		r.segments = split(r.pattern)
	}
	return all
}

func split(path string) []string { return strings.Split(strings.Trim(path, "/"), "/") }

// match compares a path with the route, and returns the variables.
func (r *route) match(path []string) (map[string]string, bool) {
	if r.segments[0] == "{scope...}" {
		return matchTail(r.segments[1:], path)
	}
	if len(path) != len(r.segments) {
		return nil, false
	}
	vars := map[string]string{}
	for i, s := range r.segments {
		if strings.HasPrefix(s, "{") {
			vars[strings.Trim(s, "{}")] = path[i]
		} else if !strings.EqualFold(s, path[i]) {
			return nil, false
		}
	}
	return vars, true
}

// matchTail matches the end of a path; the rest is the variable "scope".
func matchTail(tail, path []string) (map[string]string, bool) {
	n := len(path) - len(tail)
	if n < 1 {
		return nil, false
	}
	vars := map[string]string{"scope": "/" + strings.Join(path[:n], "/")}
	for i, s := range tail {
		switch {
		case strings.HasPrefix(s, "{"):
			vars[strings.Trim(s, "{}")] = path[n+i]
		case !strings.EqualFold(s, path[n+i]):
			return nil, false
		}
	}
	return vars, true
}

// notImplemented are requests of the Azure CLI that Resource Manager answers and the sandbox does not. Source: the requests of az 2.74
// (resource list, tag list, vmss nic list, role assignment list, role definition list, monitor activity-log list,
// vmss run-command invoke, show and list).
var notImplemented = []*regexp.Regexp{
	regexp.MustCompile(`(?i)^/subscriptions/[^/]+(/resourceGroups/[^/]+)?/resources$`),
	regexp.MustCompile(`(?i)^/subscriptions/[^/]+/tagNames(/|$)`),
	regexp.MustCompile(`(?i)/virtualMachineScaleSets/[^/]+(/virtualMachines/[^/]+)?/networkInterfaces(/|$)`),
	regexp.MustCompile(`(?i)/providers/Microsoft\.Authorization/role(Assignments|Definitions)(/|$)`),
	regexp.MustCompile(`(?i)/providers/Microsoft\.Insights/eventtypes/`),
	regexp.MustCompile(`(?i)/(virtualMachines|locations)/[^/]+/runCommands?(/|$)`),
}

// unknownType is ARM's answer to an unknown path.
func unknownType(path string) *problem {
	segments := split(path)
	for _, missing := range notImplemented {
		if missing.MatchString(path) {
			return refuse(http.StatusNotImplemented, "NotImplemented", "The sandbox does not implement '%s'. Real Azure does.", path)
		}
	}
	for i, s := range segments {
		if !strings.EqualFold(s, "providers") || i+2 >= len(segments) {
			continue
		}
		if !strings.EqualFold(segments[i+1], computeNamespace) {
			return refuse(http.StatusNotFound, "InvalidResourceNamespace", "The resource namespace '%s' is invalid.", segments[i+1])
		}
		return refuse(http.StatusNotFound, "InvalidResourceType",
			"The resource type '%s' could not be found in the namespace '%s'.", strings.Join(segments[i+2:], "/"), segments[i+1])
	}
	return refuse(http.StatusNotFound, "NotFound", "No HTTP resource was found that matches the request URI '%s'.", path)
}
