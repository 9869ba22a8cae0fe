package cloud

import "strconv"

// A capture by copy leaves its donor in service: the donor's disk is copied while it is in use, and the copy is cleaned on a
// workshop, which is thrown away. A copy of a disk in use holds the donor's secrets.

// WorkshopSpec describes a workshop: an instance outside its pool, built from the pool's present recipe. The pool stays
// unchanged. Callers save the spec before the first call, so that another process can end the workshop.
type WorkshopSpec struct {
	Pool PoolID
	// Name is the caller's name, unique for the capture and its attempt. The provider derives a legal resource name.
	Name string
	// InstanceType replaces the instance type of the recipe, in the words of the cloud; empty keeps it.
	InstanceType string
	// CustomData is as in TrialSpec; only PreflightWorkshop and EnsureWorkshop use it.
	CustomData []byte
	// Tags of the instance. TagPrototype, TagUID and TagCluster name the owner, and TagEndsAt the end.
	Tags map[string]string
	// Origin is set by Workshops of InCluster only.
	Origin Origin
}

// CopySpec describes the copy of a donor's disk as a further disk of a running instance: a workshop.
type CopySpec struct {
	// Name is the caller's name, unique for the capture and its attempt. The provider derives a legal resource name.
	Name string
	// Instance is the workshop's instance. The copy is made where the instance is.
	Instance InstanceID
	// SnapshotID is the ID of the snapshot that the copy is made from, complete for EnsureAttached. A disk from another snapshot is not
	// the copy. Empty if unknown.
	SnapshotID string
	// Proven is the ID of the copy that was proven. EnsureCopySnapshot refuses any other disk; empty for any disk.
	Proven string
	// Tags of the copy, as of a workshop, and TagOrder. A disk with another TagUID is not the copy.
	Tags map[string]string
	// Origin is set by Copies of InCluster only.
	Origin Origin
}

// DiskCopy is the state of a copy of a donor's disk.
type DiskCopy struct {
	// ID is the cloud's ID; empty if absent.
	ID string `json:"id,omitempty"`
	// State is Absent without a copy, Pending while the cloud makes, attaches or detaches the copy, and Complete
	// afterwards. State is Failed if the cloud gave up or the copy is gone, and Deleting during the deletion.
	State State `json:"state"`
	// IsAttached is true if the copy is a disk of its instance, so that the guest may write to it. A copy that is
	// Complete and not attached is a disk of no instance.
	IsAttached bool `json:"attached,omitempty"`
	// Device is how the guest finds the copy; empty unless IsAttached.
	Device DiskDevice `json:"device,omitzero"`
	// Error is the cloud's message if State is Failed.
	Error string `json:"error,omitempty"`
}

// DiskDevice is how a guest finds one of its disks. A guest must still prove that the disk is the expected one, because names
// of devices may be those of another disk.
type DiskDevice struct {
	// Serial is the serial number that the disk reports, as in `lsblk -o SERIAL`, or SerialOfLUN; empty if unknown. Guests on
	// old instance types see no serial number.
	Serial string `json:"serial,omitempty"`
	// Names are possible paths of the device for a guest that sees no serial number, the most probable first.
	Names []string `json:"names,omitempty"`
}

// SerialOfLUN stands for the serial number of a data disk in clouds such as Azure, whose guests see the logical unit number, and no
// name or ID of the disk.
func SerialOfLUN(lun int) string { return "lun-" + strconv.Itoa(lun) }

// IsZero reports whether nothing is known about the device.
func (d DiskDevice) IsZero() bool { return d.Serial == "" && len(d.Names) == 0 }
