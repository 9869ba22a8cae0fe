package azure

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// snapshots are copies of disks.
type snapshots struct {
	*backend
	permissions permissions
	contents    contents
}

func (s snapshots) routes() []*route {
	const noun, read, write = "snapshot", "Microsoft.Compute/snapshots/read", "Microsoft.Compute/snapshots/write"
	return []*route{
		{method: http.MethodGet, pattern: snapshotPath, noun: noun, operation: "get", action: read, handle: s.get},
		{method: http.MethodPut, pattern: snapshotPath, noun: noun, operation: "put", action: write, handle: s.put},
		{method: http.MethodPatch, pattern: snapshotPath, noun: noun, operation: "patch", action: write, handle: s.patch},
		{method: http.MethodDelete, pattern: snapshotPath, noun: noun, operation: "delete", action: "Microsoft.Compute/snapshots/delete", handle: s.delete},
		{method: http.MethodGet, pattern: computePath + "/snapshots", noun: noun, operation: "list", action: read, handle: s.list},
		{method: http.MethodGet, pattern: subscriptionPath + "/providers/Microsoft.Compute/snapshots", noun: noun, operation: "list",
			action: read, handle: s.list},
	}
}

var diskName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,80}$`)

// A disk gives at most maxShots snapshots in shotWindow of simulated time.
const (
	maxShots   = 7
	shotWindow = 5 * time.Minute
)

func (s snapshots) work() map[string]job {
	return map[string]job{"snapshot.create": {s.make, written}}
}

func (c *call) snapshotID() resourceID { return c.compute("snapshots", "snapshot") }

func (s snapshots) document(st *state, v *snapshot) object {
	doc := v.document()
	properties := child(doc, "properties")
	properties["timeCreated"] = s.date(v.Created)
	properties["uniqueId"] = uuidOf(v.ID + v.Created.String())
	properties["diskState"] = "Unattached"
	percent := 100.0
	if op := st.Operations[v.Operation]; op != nil && v.State == stateCreating {
		percent = float64(s.percent(*op))
	}
	properties["completionPercent"] = percent
	return doc
}

func (s snapshots) get(c *call) (*reply, error) {
	return s.lookUp(c.snapshotID(), func(st *state, key string) object {
		if v := st.Snapshots[key]; v != nil {
			return s.document(st, v)
		}
		return nil
	})
}

func (s snapshots) list(c *call) (*reply, error) {
	var docs []any
	s.store.Read(func(st *state) {
		docs = documents(st.Snapshots, c.scopePrefix(), func(v *snapshot) object { return s.document(st, v) })
	})
	return s.page(c, docs), nil
}

func (s snapshots) put(c *call) (*reply, error) {
	id := c.snapshotID()
	if !diskName.MatchString(id.name()) {
		return nil, invalid("snapshotName",
			"The entity name 'snapshotName' is invalid according to its validation rule: '%s' (at most 80 letters, digits, '_', '.' and '-').", id.name())
	}
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	body := writable(c.body)
	source := text(body, "properties", "creationData", "sourceResourceId")
	if text(body, "properties", "creationData", "createOption") != "Copy" || source == "" {
		return nil, invalid("snapshot.properties.creationData",
			"Required parameter 'creationData.sourceResourceId' with createOption 'Copy' is missing (null).")
	}
	if p := s.permissions.authorizeLinked(c, "Microsoft.Compute/disks/beginGetAccess/action", source); p != nil {
		return nil, p
	}
	rep, running := &reply{status: http.StatusAccepted}, false
	err := s.store.Write(func(st *state) error {
		if old := st.Snapshots[id.key()]; old != nil {
			return s.replace(st, c, old, body, rep)
		}
		if p := s.mayShoot(st, source); p != nil {
			return p
		}
		if p := s.withinQuota(st, "StandardSnapshotCount", 1); p != nil {
			return p
		}
		made := fromDisk(st, body, source)
		if key := at(st.resourceAt(source).Body, "properties", "encryption"); at(made, "properties", "encryption") == nil && key != nil {
			put(made, copyOf(key), "properties", "encryption")
		}
		v := &snapshot{resource: newResource(id, made)}
		st.Snapshots[id.key()] = v
		st.Shots[fold(source)] = append(st.Shots[fold(source)], v.Created)
		rep.operation = c.begin(st, operation{Kind: "snapshot.create", Target: v.ID, Latency: s.config.Latencies.Snapshot})
		v.Operation = rep.operation.ID
		rep.body = s.document(st, v)
		running = st.runs(source)
		return nil
	})
	if err == nil && running { // the instance goes on writing: the content is that before the answer
		// A cloud completes a request that it has read, also for a client that is gone.
		err = s.contents.copyOnce(context.WithoutCancel(c.r.Context()), *rep.operation, source)
	}
	if err == nil && c.started != nil {
		s.start(*c.started)
	}
	return rep, err
}

// runs reports whether a disk belongs to a running instance.
func (st *state) runs(disk string) bool {
	d := st.Disks[fold(disk)]
	if d == nil {
		return false
	}
	i := st.Instances[fold(d.Owner)]
	return i != nil && i.Launched
}

// replace is a PUT on an existing snapshot: the source stays.
func (s snapshots) replace(st *state, c *call, v *snapshot, body object, rep *reply) error {
	if v.State == stateCreating || v.State == stateDeleting {
		return conflict("OperationNotAllowed",
			"The snapshot '%s' is in provisioning state '%s'. Please wait for that operation to end.", v.id().name(), v.State)
	}
	from := []string{"properties", "creationData", "sourceResourceId"}
	if !strings.EqualFold(text(v.Body, from...), text(body, from...)) {
		return changeNotAllowed("snapshot.creationData.sourceResourceId")
	}
	v.change(mergePatch(v.Body, body), stateUpdating)
	rep.operation = c.begin(st, operation{Kind: "resource.settle", Target: v.ID, Latency: s.config.Latencies.Delete})
	rep.body = s.document(st, v)
	return nil
}

// mayShoot checks the source and the limit per disk.
func (s snapshots) mayShoot(st *state, source string) *problem {
	src := st.resourceAt(source)
	id, ok := parseID(source)
	if !ok || src == nil || src.State == stateDeleting || !id.is("disks") && !id.is("snapshots") {
		return refuse(http.StatusNotFound, "ResourceNotFound", "The source resource '%s' could not be found.", source)
	}
	var recent []time.Time
	for _, t := range st.Shots[fold(source)] {
		if time.Since(t) < s.config.Clock.Real(shotWindow) {
			recent = append(recent, t)
		}
	}
	st.Shots[fold(source)] = recent
	if len(recent) < maxShots {
		return nil
	}
	p := refuse(http.StatusTooManyRequests, "SnapshotCreationRateLimitExceeded",
		"The maximum number of snapshots (%d) of disk '%s' within %v has been reached. Please try again later.", maxShots, id.name(), shotWindow)
	p.header = http.Header{}
	wait := time.Until(recent[0].Add(s.config.Clock.Real(shotWindow)))
	if scale := s.config.Clock.Scale; scale > 0 {
		wait = time.Duration(float64(wait) * scale)
	}
	s.retryAfter(p.header, wait)
	return p
}

// fromDisk copies properties of the disk to a snapshot.
func fromDisk(st *state, body object, source string) object {
	out := copyObject(body)
	if out["sku"] == nil {
		out["sku"] = object{"name": "Standard_LRS", "tier": "Standard"}
	}
	src := st.resourceAt(source)
	properties := child(out, "properties")
	for _, k := range []string{"osType", "hyperVGeneration", "diskSizeGB", "diskSizeBytes", "supportedCapabilities", "securityProfile"} {
		if properties[k] == nil {
			if v := at(src.Body, "properties", k); v != nil {
				properties[k] = copyOf(v)
			}
		}
	}
	if properties["incremental"] == nil {
		properties["incremental"] = false
	}
	return out
}

// make copies the disk at the time of the request, and then waits for the latency.
func (s snapshots) make(ctx context.Context, op operation) (func(*state), error) {
	var source string
	s.store.Read(func(st *state) {
		source = text(st.Snapshots[fold(op.Target)].Body, "properties", "creationData", "sourceResourceId")
	})
	err := s.contents.copyOnce(ctx, op, source)
	if err != nil {
		return nil, err
	}
	return s.settle(ctx, op)
}

func (s snapshots) patch(c *call) (*reply, error) {
	id := c.snapshotID()
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		v := st.Snapshots[id.key()]
		if v == nil {
			return notFound(id)
		}
		v.change(mergePatch(v.Body, writable(c.body)), v.State)
		rep.body = s.document(st, v)
		return nil
	})
	return rep, err
}

// delete refuses during the creation of an image version from the snapshot: the gallery reads the snapshot by a
// shared access signature.
func (s snapshots) delete(c *call) (*reply, error) {
	id := c.snapshotID()
	return s.beginDelete(c, id, s.config.Latencies.Delete, func(st *state) *problem {
		for _, v := range st.Versions {
			if source, _ := sourceOf(v.Body); v.State == stateCreating && strings.EqualFold(source, id.String()) {
				return conflict("OperationNotAllowed", "There is an active shared access signature outstanding for disk '%s'. "+
					"Call EndGetAccess on the disk before deleting or attaching the disk.", id.name())
			}
		}
		return nil
	})
}
