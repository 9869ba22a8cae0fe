package azure

import "context"

// contents are what disks, snapshots and image versions hold: the fleet keeps it under their IDs.
type contents struct{ *world }

// copy makes the content of one resource that of another. A light machine's disk has none.
func (s contents) copy(ctx context.Context, to, from string) error {
	if s.empty(from) {
		return nil
	}
	return s.config.Fleet.CopyDisk(ctx, diskOf(to), diskOf(from))
}

// empty tells whether a content goes back to a light machine.
func (s contents) empty(id string) bool {
	result := false
	s.store.Read(func(st *state) {
		for range 10 { // a snapshot of a disk, a version of a snapshot, a disk of a version
			r := st.resourceAt(id)
			if r == nil {
				return
			}
			if truth(r.Body, "sandboxLight") {
				result = true
				return
			}
			next := text(r.Body, "properties", "creationData", "sourceResourceId")
			if v, _ := sourceOf(r.Body); v != "" {
				next = v
			}
			id = next
		}
	})
	return result
}
