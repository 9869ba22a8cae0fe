package azure

import (
	"time"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// Provisioning states that ARM reports.
const (
	stateCreating  = "Creating"
	stateUpdating  = "Updating"
	stateDeleting  = "Deleting"
	stateSucceeded = "Succeeded"
	stateFailed    = "Failed"
)

// state is everything that the simulator knows. Tables are keyed by the resource ID in lower case.
type state struct {
	Groups      map[string]*resource `json:"groups"`
	Galleries   map[string]*resource `json:"galleries"`
	Definitions map[string]*resource `json:"definitions"`
	Versions    map[string]*version  `json:"versions"`
	Snapshots   map[string]*snapshot `json:"snapshots"`
	Disks       map[string]*disk     `json:"disks"`
	ScaleSets   map[string]*scaleSet `json:"scaleSets"`
	Instances   map[string]*instance `json:"instances"`
	// Alone are what VMs that stand by themselves are built from, each a scale set of its own that nobody sees, by the VM's ID.
	Alone      map[string]*scaleSet  `json:"alone,omitempty"`
	Locks      map[string]*lock      `json:"locks"`
	Balancers  map[string]*balancer  `json:"balancers"`
	Operations map[string]*operation `json:"operations"`
	// Limits that differ from those that were configured, by their name in the usages list.
	Limits map[string]int64       `json:"limits,omitempty"`
	Faults fault.List             `json:"faults"`
	Shots  map[string][]time.Time `json:"shots"` // when snapshots of a disk were asked for
}

func newState() *state {
	return &state{
		Groups: map[string]*resource{}, Galleries: map[string]*resource{}, Definitions: map[string]*resource{},
		Versions: map[string]*version{}, Snapshots: map[string]*snapshot{}, Disks: map[string]*disk{},
		ScaleSets: map[string]*scaleSet{}, Instances: map[string]*instance{}, Alone: map[string]*scaleSet{}, Locks: map[string]*lock{}, Balancers: map[string]*balancer{},
		Operations: map[string]*operation{}, Shots: map[string][]time.Time{},
	}
}

// resource is what all resources share.
type resource struct {
	ID string `json:"id"`
	// Body is what was written: location, tags, sku, zones, properties, secrets included.
	Body object `json:"body"`
	// State is the provisioning state, Error why it is Failed.
	State    string    `json:"state"`
	Error    *problem  `json:"error,omitempty"`
	Created  time.Time `json:"created"`
	Revision int64     `json:"revision"`
}

func (r *resource) id() resourceID {
	id, _ := parseID(r.ID)
	return id
}

func (r *resource) key() string { return fold(r.ID) }

// change replaces the body and says what state it is in from now on.
func (r *resource) change(body object, state string) {
	r.Body, r.State, r.Error = body, state, nil
	r.Revision++
}

// end is the outcome of an operation on the resource.
func (r *resource) end(p *problem) {
	r.State, r.Error = stateSucceeded, p
	if p != nil {
		r.State = stateFailed
	}
}

// document is the resource as a GET shows it.
func (r *resource) document() object {
	id := r.id()
	doc := copyObject(r.Body)
	doc["id"], doc["name"], doc["type"] = r.ID, id.name(), id.resourceType()
	put(doc, r.State, "properties", "provisioningState")
	return doc
}

// version is a gallery image version. Its content is a disk of the fleet under its ID.
type version struct {
	resource
	// Operation is the one that makes it: its progress is the replication's.
	Operation string `json:"operation"`
}

type snapshot struct {
	resource
	Operation string `json:"operation"`
}

type disk struct {
	resource
	// Owner is the instance that it is the OS disk of.
	Owner string `json:"owner,omitempty"`
}

// scaleSet is a Uniform scale set. Body holds its model but for the virtual machine profile, which is kept
// by generation: instances stay on the one that they were built from.
type scaleSet struct {
	resource
	// Model is the generation that new instances are built from.
	Model int64 `json:"model"`
	// Profiles are the generations that are still in use, with their secrets.
	Profiles     map[int64]object `json:"profiles"`
	NextInstance int64            `json:"nextInstance"`
	// Light instances have no files.
	Light bool `json:"light,omitempty"`
	// Rolling is the code of the latest rolling upgrade; empty if there was none.
	Rolling string `json:"rolling,omitempty"`
}

// profile is what new instances are built from.
func (s *scaleSet) profile() object { return s.Profiles[s.Model] }

func (s *scaleSet) capacity() int64 {
	n, _ := number(s.Body, "sku", "capacity")
	return n
}

// instance is one VM of a scale set.
type instance struct {
	resource
	Number int64 `json:"number"`
	// Model is the generation of the scale set's profile that it was built from.
	Model int64  `json:"model"`
	VMID  string `json:"vmID"`
	Zone  string `json:"zone,omitempty"`
	// Disk is the OS disk's ID; Image the reference and Exact the version that it was built from.
	Disk  string `json:"disk"`
	Image object `json:"image"`
	Exact string `json:"exact,omitempty"`
	// Generation of Hyper-V, "V1" or "V2".
	Generation string `json:"generation"`
	// Launched tells that the fleet has the machine.
	Launched    bool `json:"launched"`
	Deallocated bool `json:"deallocated,omitempty"`
	// Doing is the power action in progress, such as "powerOff"; empty if none.
	Doing string `json:"doing,omitempty"`
}

// protected tells whether a scale-in must spare it.
func (i *instance) protected() bool {
	return truth(i.Body, "properties", "protectionPolicy", "protectFromScaleIn") ||
		truth(i.Body, "properties", "protectionPolicy", "protectFromScaleSetActions")
}
