package azure

import (
	"time"

	"github.com/kamino-dev/kamino/sandbox/fault"
)

// Provisioning states of ARM.
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
	// Alone holds the models of standalone VMs: a hidden scale set for each VM, by the VM's ID.
	Alone      map[string]*scaleSet  `json:"alone,omitempty"`
	Locks      map[string]*lock      `json:"locks"`
	Balancers  map[string]*balancer  `json:"balancers"`
	Networks   map[string]object     `json:"networks,omitempty"`
	Operations map[string]*operation `json:"operations"`
	// Limits that differ from the configuration, by their names in the usages list.
	Limits map[string]int64       `json:"limits,omitempty"`
	Faults fault.List             `json:"faults"`
	Shots  map[string][]time.Time `json:"shots"` // when snapshots of a disk were asked for
}

func newState() *state {
	return &state{
		Groups: map[string]*resource{}, Galleries: map[string]*resource{}, Definitions: map[string]*resource{},
		Versions: map[string]*version{}, Snapshots: map[string]*snapshot{}, Disks: map[string]*disk{},
		ScaleSets: map[string]*scaleSet{}, Instances: map[string]*instance{}, Alone: map[string]*scaleSet{}, Locks: map[string]*lock{},
		Balancers: map[string]*balancer{}, Networks: map[string]object{},
		Operations: map[string]*operation{}, Shots: map[string][]time.Time{},
	}
}

// resource is the common part of all resources.
type resource struct {
	ID string `json:"id"`
	// Body is the written body: location, tags, sku, zones, properties, with secrets.
	Body object `json:"body"`
	// State is the provisioning state, Error the reason of a failure.
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

// change replaces the body and sets the state.
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

// document is the resource for a GET.
func (r *resource) document() object {
	id := r.id()
	doc := copyObject(r.Body)
	doc["id"], doc["name"], doc["type"] = r.ID, id.name(), id.resourceType()
	put(doc, r.State, "properties", "provisioningState")
	return doc
}

// version is a gallery image version. The fleet holds its content under the version's ID.
type version struct {
	resource
	// Operation creates the version; its progress is the progress of the replication.
	Operation string `json:"operation"`
	// InRegion is the time from which the region has the version. Azure may report the version as made before.
	InRegion time.Time `json:"inRegion,omitzero"`
}

type snapshot struct {
	resource
	Operation string `json:"operation"`
}

type disk struct {
	resource
	// Owner is the instance of an OS disk, or of an attached disk.
	Owner string `json:"owner,omitempty"`
}

// scaleSet is a Uniform scale set. Body holds the model without the virtual machine profile. Profiles are stored by
// generation, because instances keep the profile of their creation.
type scaleSet struct {
	resource
	// Model is the generation for new instances.
	Model int64 `json:"model"`
	// Profiles are the used generations, with secrets.
	Profiles     map[int64]object `json:"profiles"`
	NextInstance int64            `json:"nextInstance"`
	// Light instances have no files.
	Light bool `json:"light,omitempty"`
	// Rolling is the code of the latest rolling upgrade; empty if there was none.
	Rolling string `json:"rolling,omitempty"`
}

// profile is the profile for new instances.
func (s *scaleSet) profile() object { return s.Profiles[s.Model] }

func (s *scaleSet) capacity() int64 {
	n, _ := number(s.Body, "sku", "capacity")
	return n
}

// instance is a VM of a scale set.
type instance struct {
	resource
	Number int64 `json:"number"`
	// Model is the generation of the instance's profile.
	Model int64  `json:"model"`
	VMID  string `json:"vmID"`
	Zone  string `json:"zone,omitempty"`
	// Disk is the OS disk's ID, Image the reference and Exact the version of the image.
	Disk  string `json:"disk"`
	Image object `json:"image"`
	Exact string `json:"exact,omitempty"`
	// Generation of Hyper-V, "V1" or "V2".
	Generation string `json:"generation"`
	// Launched: the fleet has the machine.
	Launched    bool `json:"launched"`
	Deallocated bool `json:"deallocated,omitempty"`
	// Data are the attached disks.
	Data []attachment `json:"data,omitempty"`
	// Doing is the power action in progress, such as "powerOff"; empty if none.
	Doing string `json:"doing,omitempty"`
}

// protected: a scale-in must not remove the instance.
func (i *instance) protected() bool {
	return truth(i.Body, "properties", "protectionPolicy", "protectFromScaleIn") ||
		truth(i.Body, "properties", "protectionPolicy", "protectFromScaleSetActions")
}
