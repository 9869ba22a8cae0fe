package azure

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	versionRead   = "Microsoft.Compute/galleries/images/versions/read"
	versionWrite  = "Microsoft.Compute/galleries/images/versions/write"
	versionDelete = "Microsoft.Compute/galleries/images/versions/delete"
)

// versions are gallery image versions.
type versions struct {
	*backend
	permissions permissions
	contents    contents
}

func (s versions) routes() []*route {
	const noun = "version"
	return []*route{
		{method: http.MethodGet, pattern: versionPath, noun: noun, operation: "get", action: versionRead, handle: s.get},
		{method: http.MethodPut, pattern: versionPath, noun: noun, operation: "put", action: versionWrite, handle: s.put},
		{method: http.MethodPatch, pattern: versionPath, noun: noun, operation: "patch", action: versionWrite, handle: s.patch},
		{method: http.MethodDelete, pattern: versionPath, noun: noun, operation: "delete", action: versionDelete, handle: s.delete},
		{method: http.MethodGet, pattern: definitionPath + "/versions", noun: noun, operation: "list", action: versionRead, handle: s.list},
	}
}

func (s versions) work() map[string]job {
	return map[string]job{"version.create": {s.make, written}}
}

var versionName = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

func (c *call) versionID() resourceID {
	return c.compute("galleries", "gallery", "images", "definition", "versions", "version")
}

// validVersionName requires three numbers of 32 bits.
func validVersionName(name string) bool {
	if !versionName.MatchString(name) {
		return false
	}
	for _, part := range strings.Split(name, ".") {
		if _, err := strconv.ParseInt(part, 10, 32); err != nil {
			return false
		}
	}
	return true
}

// compareVersions compares names by their numbers.
func compareVersions(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if m != n {
			return m - n
		}
	}
	return len(x) - len(y)
}

// document shows a version, and the replication if asked for.
func (s versions) document(st *state, v *version, expand bool) object {
	doc := v.document()
	profile := child(doc, "properties", "publishingProfile")
	profile["publishedDate"] = s.date(v.Created)
	for _, r := range list(profile, "targetRegions") {
		if region, isObject := r.(object); isObject {
			fillRegion(region, profile)
			region["name"] = displayLocation(text(region, "name"))
		}
	}
	if !expand {
		return doc
	}
	state, percent := "Completed", 100
	switch v.State {
	case stateCreating:
		state, percent = "Replicating", 0
		if op := st.Operations[v.Operation]; op != nil {
			percent = s.percent(*op)
		}
	case stateFailed:
		state, percent = "Failed", 0
	default:
		if time.Now().Before(v.InRegion) {
			state, percent = "Replicating", 99
		}
	}
	aggregated := map[string]string{"Completed": "Completed", "Replicating": "InProgress", "Failed": "Failed"}[state]
	details := ""
	if v.Error != nil {
		details = v.Error.Message
	}
	summary := []any{}
	for _, r := range list(profile, "targetRegions") {
		region, _ := r.(object)
		summary = append(summary, object{"region": text(region, "name"), "state": state, "progress": percent, "details": details})
	}
	put(doc, object{"aggregatedState": aggregated, "summary": summary}, "properties", "replicationStatus")
	return doc
}

// fillRegion copies defaults from the profile to a target region.
func fillRegion(region, profile object) {
	for _, k := range []string{"storageAccountType"} {
		if region[k] == nil {
			region[k] = profile[k]
		}
	}
	if region["regionalReplicaCount"] == nil {
		region["regionalReplicaCount"] = profile["replicaCount"]
	}
}

func (c *call) expandsReplication() bool {
	return strings.EqualFold(c.r.URL.Query().Get("$expand"), "ReplicationStatus")
}

func (s versions) get(c *call) (*reply, error) {
	return s.lookUp(c.versionID(), func(st *state, key string) object {
		if v := st.Versions[key]; v != nil {
			return s.document(st, v, c.expandsReplication())
		}
		return nil
	})
}

func (s versions) list(c *call) (*reply, error) {
	definition := c.definitionID()
	var docs []any
	known := false
	s.store.Read(func(st *state) {
		known = st.Definitions[definition.key()] != nil
		docs = documents(st.Versions, definition.key()+"/versions/", func(v *version) object { return s.document(st, v, false) })
	})
	if !known {
		return nil, notFound(definition)
	}
	return s.page(c, docs), nil
}

// fill sets Azure's defaults for omitted properties of a new version.
func (s versions) fill(body object) object {
	profile, isObject := at(body, "properties", "publishingProfile").(object)
	if !isObject {
		profile = object{}
		put(body, profile, "properties", "publishingProfile")
	}
	for k, v := range map[string]any{"replicaCount": 1, "storageAccountType": "Standard_LRS", "replicationMode": "Full", "excludeFromLatest": false} {
		if profile[k] == nil {
			profile[k] = v
		}
	}
	if len(list(profile, "targetRegions")) == 0 {
		profile["targetRegions"] = []any{object{"name": s.config.Location}}
	}
	return body
}

func (s versions) put(c *call) (*reply, error) {
	id := c.versionID()
	if !validVersionName(id.name()) {
		return nil, invalid("galleryImageVersionName", "The gallery image version name '%s' is invalid: it must follow Major.Minor.Patch, "+
			"each within the range of a 32-bit integer.", id.name())
	}
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	body := writable(c.body)
	s.store.Read(func(st *state) {
		if old := st.Versions[id.key()]; old != nil {
			body = mergePatch(old.Body, body) // omitted properties of an existing version stay, such as the source
		}
	})
	body = s.fill(body)
	if p := s.check(c, body); p != nil {
		return nil, p
	}
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		if st.Definitions[id.parent().key()] == nil {
			return parentNotFound(id)
		}
		if old := st.Versions[id.key()]; old != nil {
			return s.replace(st, c, old, body, rep)
		}
		if p := s.checkSource(st, id, body); p != nil {
			return p
		}
		if p := s.withinQuota(st, "GalleryImageVersions", 1); p != nil {
			return p
		}
		source, _ := sourceOf(body)
		if size := at(st.resourceAt(source).Body, "properties", "diskSizeGB"); size != nil {
			put(body, size, "properties", "storageProfile", "osDiskImage", "sizeInGB")
		}
		v := &version{resource: newResource(id, body)}
		st.Versions[id.key()] = v
		rep.status = http.StatusCreated
		rep.operation = c.begin(st, operation{Kind: "version.create", Target: v.ID, Latency: s.config.Latencies.Version})
		v.Operation = rep.operation.ID
		rep.body = s.document(st, v, false)
		return nil
	})
	return rep, err
}

// replace is a PUT on an existing version: immutable properties must stay equal; a failed version is tried again.
func (s versions) replace(st *state, c *call, v *version, body object, rep *reply) error {
	switch v.State {
	case stateCreating, stateDeleting, stateUpdating:
		return conflict("Conflict",
			"The request failed due to conflict with a concurrent request. The gallery image version '%s' is in provisioning state '%s'.",
			v.id().name(), v.State)
	}
	if p := sameVersion(v.Body, body); p != nil {
		return p
	}
	if size := at(v.Body, "properties", "storageProfile", "osDiskImage", "sizeInGB"); size != nil {
		put(body, size, "properties", "storageProfile", "osDiskImage", "sizeInGB")
	}
	if v.State == stateFailed {
		if p := s.checkSource(st, v.id(), body); p != nil {
			return p
		}
		v.change(body, stateCreating)
		rep.operation = c.begin(st, operation{Kind: "version.create", Target: v.ID, Latency: s.config.Latencies.Version})
		v.Operation = rep.operation.ID
	} else {
		v.change(body, stateUpdating)
		rep.operation = c.begin(st, operation{Kind: "resource.settle", Target: v.ID, Latency: s.config.Latencies.VersionUpdate})
	}
	rep.body = s.document(st, v, false)
	return nil
}

// sameVersion refuses changes of immutable properties.
func sameVersion(old, next object) *problem {
	for _, path := range [][]string{
		{"publishingProfile", "storageAccountType"}, {"publishingProfile", "replicationMode"}, {"storageProfile", "osDiskImage", "source"},
	} {
		full := append([]string{"properties"}, path...)
		before, after := fold(jsonText(at(old, full...))), fold(jsonText(at(next, full...)))
		if before != after {
			return changeNotAllowed("galleryImageVersion.properties." + strings.Join(path, "."))
		}
	}
	return nil
}

func (s versions) patch(c *call) (*reply, error) {
	id := c.versionID()
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		v := st.Versions[id.key()]
		if v == nil {
			return notFound(id)
		}
		if v.State != stateSucceeded {
			return conflict("Conflict",
				"The request failed due to conflict with a concurrent request. The gallery image version '%s' is in provisioning state '%s'.",
				id.name(), v.State)
		}
		next := mergePatch(v.Body, writable(c.body))
		if p := sameVersion(v.Body, next); p != nil {
			return p
		}
		v.change(next, stateUpdating)
		rep.operation = c.begin(st, operation{Kind: "resource.settle", Target: v.ID, Latency: s.config.Latencies.VersionUpdate})
		rep.body = s.document(st, v, false)
		return nil
	})
	return rep, err
}

// delete deletes a version, even a version in a scale set's model: Azure permits the deletion, and the scale set can
// no longer grow.
func (s versions) delete(c *call) (*reply, error) {
	id := c.versionID()
	return s.beginDelete(c, id, s.config.Latencies.VersionDelete, func(st *state) *problem {
		if state := st.Versions[id.key()].State; state == stateCreating || state == stateUpdating {
			return conflict("Conflict",
				"The request failed due to conflict with a concurrent request. The gallery image version '%s' is in provisioning state '%s'.", id.name(), state)
		}
		return nil
	})
}
