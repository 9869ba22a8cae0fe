package azure

import "context"

// contents are the contents of disks, snapshots and image versions. The fleet stores contents by ID.
type contents struct{ *backend }

// copy copies the content of a resource to another resource. The disk of a light machine has no content.
func (s contents) copy(ctx context.Context, to, from string) error {
	if s.empty(from) {
		return nil
	}
	return s.config.Fleet.CopyDisk(ctx, diskOf(to), diskOf(from))
}

// empty reports whether a content comes from a light machine.
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
