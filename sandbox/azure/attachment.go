package azure

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// attachment is a data disk of an instance that a client has attached.
type attachment struct {
	Disk string `json:"disk"`
	LUN  int64  `json:"lun"`
	// Body has the other properties of the attachment.
	Body object `json:"body"`
	// Leaving: Azure detaches the disk.
	Leaving bool `json:"leaving,omitempty"`
}

// attachments attach data disks to instances that exist, and detach data disks.
type attachments struct {
	*backend
	permissions permissions
}

// diskWrite is the permission on an attached disk, besides that on the instance.
const diskWrite = "Microsoft.Compute/disks/write"

func (s attachments) routes() []*route {
	return []*route{
		{method: http.MethodPost, pattern: instancePath + "/attachDetachDataDisks", noun: "instance", operation: "attachDetach",
			action: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/attachDetachDataDisks/action",
			handle: func(c *call) (*reply, error) { return s.change(c, c.instanceID(), entityNotFound()) }},
		{method: http.MethodPost, pattern: vmPath + "/attachDetachDataDisks", noun: "vm", operation: "attachDetach",
			action: "Microsoft.Compute/virtualMachines/attachDetachDataDisks/action",
			handle: func(c *call) (*reply, error) { return s.change(c, c.vmID(), notFound(c.vmID())) }},
	}
}

func (s attachments) work() map[string]job {
	return map[string]job{"disks.change": {s.run, failAttachments}}
}

// change attaches and detaches disks. The instance shows the change at once, and the disks show theirs at the end.
func (s attachments) change(c *call, id resourceID, missing *problem) (*reply, error) {
	attach, detach := list(c.body, "dataDisksToAttach"), list(c.body, "dataDisksToDetach")
	if len(attach)+len(detach) == 0 {
		return nil, invalid("dataDisksToAttach", "Required parameter 'dataDisksToAttach' or 'dataDisksToDetach' is missing (null).")
	}
	for _, d := range append(slices.Clone(attach), detach...) {
		if p := s.permissions.authorizeLinked(c, diskWrite, text(d.(object), "diskId")); p != nil {
			return nil, p
		}
	}
	rep := &reply{status: http.StatusAccepted}
	err := s.backend.change(c, func(st *state) error {
		i := st.Instances[id.key()]
		switch {
		case st.setOf(i) == nil:
			return missing
		case i.State == stateDeleting || !i.Launched:
			return conflict("OperationNotAllowed", "The instance '%s' is in provisioning state '%s'.", i.ID, i.State)
		case st.inOperation(i.key()):
			return conflict("Conflict", "The request failed due to conflict with a concurrent request. To resolve it, please refer to "+
				"https://aka.ms/activitylog to get more details on the conflicting requests.")
		}
		data := slices.Clone(i.Data)
		for _, d := range detach {
			n := slices.IndexFunc(data, func(a attachment) bool { return fold(a.Disk) == fold(text(d.(object), "diskId")) })
			if n < 0 {
				return invalid("dataDisksToDetach", "Disk '%s' is not attached to VM '%s'.", text(d.(object), "diskId"), i.ID)
			}
			data[n].Leaving = true
		}
		for _, d := range attach {
			a, p := s.attachment(st, i, data, d.(object))
			if p != nil {
				return p
			}
			data = append(data, a)
		}
		i.Data, i.State = data, stateUpdating
		i.Revision++
		rep.operation = c.begin(st, operation{Kind: "disks.change", Target: i.ID, Latency: s.config.Latencies.Attach, Lanes: []string{i.key()}})
		return nil
	})
	return rep, err
}

// attachment checks a new attachment, in Azure's words.
func (s attachments) attachment(st *state, i *instance, data []attachment, asked object) (attachment, *problem) {
	id := text(asked, "diskId")
	d := st.Disks[fold(id)]
	lun, given := number(asked, "lun")
	taken := map[int64]bool{}
	profile := st.setOf(i).Profiles[i.Model]
	for _, own := range list(profile, "storageProfile", "dataDisks") {
		n, _ := number(own.(object), "lun")
		taken[n] = true
	}
	for _, a := range data {
		taken[a.LUN] = true
	}
	for !given && taken[lun] {
		lun++
	}
	most := maxDataDisks(st.setOf(i))
	switch {
	case d == nil || d.State == stateDeleting:
		return attachment{}, refuse(http.StatusNotFound, "NotFound", "Disk '%s' is not found.", id)
	case d.State != stateSucceeded:
		return attachment{}, conflict("OperationNotAllowed", "Disk '%s' is in provisioning state '%s'.", d.ID, d.State)
	case st.holderOf(d) != nil:
		return attachment{}, conflict("ConflictingUserInput", "Cannot attach the disk %s to VM %s because it is already attached to VM %s. "+
			"A disk can be attached to only one VM at a time.", d.id().name(), i.ID, st.holderOf(d).ID)
	case taken[lun]:
		return attachment{}, conflict("ConflictingUserInput", "Cannot attach the disk %s to VM %s: LUN %d is in use.", d.id().name(), i.ID, lun)
	case len(taken) >= most:
		return attachment{}, conflict("OperationNotAllowed", "The maximum number of data disks allowed to be attached to a VM of this size is %d.", most)
	}
	if zones := list(d.Body, "zones"); i.Zone != "" && (len(zones) == 0 || zones[0] != i.Zone) || i.Zone == "" && len(zones) > 0 {
		return attachment{}, badRequest("BadRequest", "Disk %s cannot be attached to the VM because it is not in the same zone as the VM. VM zone: '%s'.",
			d.ID, i.Zone)
	}
	body := copyObject(asked)
	delete(body, "diskId")
	delete(body, "lun")
	return attachment{Disk: d.ID, LUN: lun, Body: body}, nil
}

// maxDataDisks is the most data disks of a VM of a size: two for each core, as for most sizes.
func maxDataDisks(set *scaleSet) int { return 2 * int(coresOf(text(set.Body, "sku", "name"))) }

// holderOf is the instance that has a disk, or is about to have it; nil without one.
func (st *state) holderOf(d *disk) *instance {
	if i := st.Instances[fold(d.Owner)]; i != nil {
		return i
	}
	for _, i := range st.Instances {
		if slices.ContainsFunc(i.Data, func(a attachment) bool { return fold(a.Disk) == d.key() }) {
			return i
		}
	}
	return nil
}

// run makes the disks of a guest those of its instance.
func (s attachments) run(ctx context.Context, op operation) (func(*state), error) {
	if err := s.wait(op, 1); err != nil {
		return nil, err
	}
	var changes []attachment
	s.store.Read(func(st *state) {
		i := st.Instances[fold(op.Target)]
		if i == nil {
			return
		}
		for _, a := range i.Data {
			if d := st.Disks[fold(a.Disk)]; a.Leaving || d != nil && d.Owner == "" {
				changes = append(changes, a)
			}
		}
	})
	for _, a := range changes {
		err := s.config.Fleet.Detach(ctx, op.Target, diskOf(a.Disk))
		if !a.Leaving {
			err = s.config.Fleet.Attach(ctx, op.Target, diskOf(a.Disk), cloud.SerialOfLUN(int(a.LUN)))
		}
		if err != nil {
			return nil, err
		}
	}
	return func(st *state) {
		i := st.Instances[fold(op.Target)]
		if i == nil || i.State == stateDeleting {
			return
		}
		for _, a := range changes {
			d := st.Disks[fold(a.Disk)]
			if a.Leaving {
				i.Data = slices.DeleteFunc(slices.Clone(i.Data), func(o attachment) bool { return o.Disk == a.Disk })
			}
			if d != nil {
				if d.Owner = i.ID; a.Leaving {
					d.Owner = ""
				}
			}
		}
		i.end(nil)
	}, nil
}

// failAttachments ends a failed change: the disks are as before.
func failAttachments(st *state, op operation, p *problem) {
	i := st.Instances[fold(op.Target)]
	if i == nil || i.State == stateDeleting {
		return
	}
	var data []attachment
	for _, a := range i.Data {
		if d := st.Disks[fold(a.Disk)]; d != nil && d.Owner != "" {
			a.Leaving = false
			data = append(data, a)
		}
	}
	i.Data = data
	i.end(p)
}

// freeDisks frees the attached disks of an instance that is gone.
func (st *state) freeDisks(i *instance) {
	for _, a := range i.Data {
		if d := st.Disks[fold(a.Disk)]; d != nil && strings.EqualFold(d.Owner, i.ID) {
			d.Owner = ""
		}
	}
}

// dataDisksOf shows the attached disks after those of the model.
func dataDisksOf(i *instance, of []any) []any {
	all := append([]any{}, of...)
	for _, a := range i.Data {
		id, _ := parseID(a.Disk)
		shown := copyObject(a.Body)
		shown["lun"], shown["name"], shown["createOption"], shown["toBeDetached"] = a.LUN, id.name(), "Attach", a.Leaving
		shown["managedDisk"] = object{"id": a.Disk}
		all = append(all, shown)
	}
	return all
}
