package aws

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// rootTask replaces the root volume of an instance.
type rootTask struct {
	resource
	Instance string    `json:"instance"`
	Image    string    `json:"image,omitempty"`
	Snapshot string    `json:"snapshot,omitempty"`
	Drop     bool      `json:"drop,omitempty"`
	Rate     int64     `json:"rate,omitempty"`
	State    string    `json:"state"`
	Fails    string    `json:"fails,omitempty"`
	Done     time.Time `json:"done"`
}

// roots are replacements of root volumes.
type roots struct {
	*backend
	runs runs
}

func (s roots) actions() []*action {
	return []*action{
		{name: "CreateReplaceRootVolumeTask", noun: "instance", handle: s.create},
		{name: "DescribeReplaceRootVolumeTasks", noun: "instance", reads: true, handle: s.describe},
	}
}

func (s roots) turns() map[string]turn { return map[string]turn{"root.replace": s.replace} }

// create orders a replacement from an image, from a snapshot, or from the snapshot of the launch.
func (s roots) create(c *call, st *state) (query.Element, error) {
	made, p := st.repeated(c)
	if p != nil {
		return query.Element{}, p
	}
	if len(made) > 0 && st.Roots[made[0]] != nil {
		return query.Of("", s.element("replaceRootVolumeTask", st.Roots[made[0]])), nil
	}
	i, p := s.instance(c, st, c.in.Get("InstanceId"))
	if p != nil {
		return query.Element{}, p
	}
	task := &rootTask{resource: s.fresh(st, "replacevol"), Instance: i.ID, Image: c.in.Get("ImageId"), Snapshot: c.in.Get("SnapshotId"),
		Drop: c.in.True("DeleteReplacedRootVolume"), State: "pending", Fails: c.fails()}
	if text := c.in.Get("VolumeInitializationRate"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 100 || n > 300 {
			return query.Element{}, bad("InvalidParameterValue", "The volume initialization rate %s must be from 100 to 300", text)
		}
		task.Rate = n
	}
	if p := s.check(st, i, task); p != nil {
		return query.Element{}, p
	}
	if task.Tags, p = tagsOnly(c.in, "replace-root-volume-task"); p != nil {
		return query.Element{}, p
	}
	st.Roots[task.ID] = task
	st.plan(st.moment+s.config.Latencies.Root, "root.replace", i.ID, task.ID)
	st.remember(c, task.ID)
	return query.Of("", s.element("replaceRootVolumeTask", task)), nil
}

// check refuses impossible replacements, and finds the snapshot.
func (s roots) check(st *state, i *instance, task *rootTask) *problem {
	if i.State != running {
		return wrongState(i)
	}
	if task.Image != "" && task.Snapshot != "" {
		return bad("InvalidParameterCombination", "You cannot specify both an image and a snapshot")
	}
	if task.Image != "" {
		im := st.Images[task.Image]
		switch {
		case im == nil || !s.sees(im):
			return noImage(task.Image)
		case im.State != imageAvailable:
			return bad("InvalidAMIID.Unavailable", "The image ID '%s' is no longer available", im.ID)
		case im.Architecture != i.Architecture || im.Virtualization != "hvm" || im.BootMode != i.BootMode:
			return bad("InvalidParameterValue", "The image '%s' must have the same architecture, virtualization type and boot mode as the instance", im.ID)
		}
		at := slices.IndexFunc(im.Devices, func(d device) bool { return d.Name == im.RootDevice })
		task.Snapshot = im.Devices[at].Snapshot
	}
	if task.Snapshot == "" {
		task.Snapshot = rootOf(st, i).Snapshot
	}
	if snap := st.Snapshots[task.Snapshot]; snap == nil || snap.State != snapshotDone {
		return noSnapshot(task.Snapshot)
	}
	return nil
}

// replace puts another root volume in the place of the old one, and boots the machine.
func (s roots) replace(st *state, e event) *work {
	// Not verified on AWS, rebuilds: a group does not replace an instance during the replacement of its root volume.
	// Not verified on AWS, rebuilds: the instance has the new image afterwards.
	task, i := st.Roots[e.Note], st.Instances[e.Target]
	if task == nil {
		return nil
	}
	if i == nil || i.State != running || task.Fails != "" {
		task.State, task.Done = "failed", s.stamp()
		return nil
	}
	old := rootOf(st, i)
	fresh := &volume{resource: s.fresh(st, "vol"), Zone: i.Zone, Size: old.Size, Type: old.Type, Snapshot: task.Snapshot, Key: old.Key,
		Rate: task.Rate, Ready: true,
		Instance: i.ID, Device: i.RootDevice, Temporary: old.Temporary, Attached: s.stamp()}
	old.free()
	st.Volumes[fresh.ID] = fresh
	if task.Image != "" {
		i.Image = task.Image
	}
	task.State = "in-progress"
	st.Rolled = append(st.Rolled, i.ID)
	from, spec := contentOf(st, task.Snapshot), s.runs.spec(st, i)
	return &work{
		do: func(ctx context.Context) error {
			if from != "" {
				if err := s.config.Fleet.CopyDisk(ctx, disk(fresh.ID), from); err != nil {
					return err
				}
			}
			return s.config.Fleet.Reimage(ctx, spec)
		},
		then: func(st *state, now time.Duration, err error) {
			task := st.Roots[e.Note]
			task.State, task.Done = "succeeded", s.stamp()
			if err != nil {
				task.State = "failed"
			}
			if task.Drop {
				delete(st.Volumes, old.ID)
				st.plan(now, "volume.drop", old.ID, "")
			}
		},
	}
}

func (s roots) describe(c *call, st *state) (query.Element, error) {
	all, p := byID(s.backend, st.Roots, c.in.Texts("ReplaceRootVolumeTaskId"), func(id string) *problem {
		return bad("InvalidReplaceRootVolumeTaskId.NotFound", "The replace root volume task ID '%s' does not exist", id)
	})
	if p != nil {
		return query.Element{}, p
	}
	all, p = filtered(c, all, map[string]func(*rootTask) []string{
		"instance-id": func(t *rootTask) []string { return []string{t.Instance} },
	}, func(t *rootTask) map[string]string { return t.Tags })
	if p != nil {
		return query.Element{}, p
	}
	return listed(s.backend, c, "replaceRootVolumeTaskSet", all, 1, 50, func(t *rootTask) query.Element { return s.element("", t) })
}

func (s roots) element(name string, t *rootTask) query.Element {
	return query.Of(name, query.Text("replaceRootVolumeTaskId", t.ID), query.Text("instanceId", t.Instance), query.Text("taskState", t.State),
		query.Date("startTime", t.Created), query.Date("completeTime", t.Done), query.Text("imageId", t.Image), query.Text("snapshotId", t.Snapshot),
		query.Bool("deleteReplacedRootVolume", t.Drop), tagSet(t.Tags))
}
