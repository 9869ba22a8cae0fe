package v1alpha1

import "fmt"

// EarlierCapture returns a sentence about a capture that only an earlier version of Kamino can end; empty without such a capture.
// The upgrade has to wait for its end.
func EarlierCapture(all []Prototype) string {
	for i := range all {
		p := &all[i]
		if isAnnotated(p) || ReplacesDonor(p) {
			return fmt.Sprintf("an earlier version of Kamino is capturing with prototype %s (phase %s), and this version cannot continue the capture: "+
				"keep the earlier version until `kubectl get prototypes` shows the end, or delete the Prototype with it. Then upgrade", p.Name, p.Status.Phase)
		}
	}
	return ""
}

// isAnnotated reports whether the record of the running capture is an annotation, which this version never reads. Any creator of
// Prototypes writes annotations: without a status from the engine, the annotation means nothing.
func isAnnotated(p *Prototype) bool {
	_, annotated := p.Annotations[FormerRecordAnnotation]
	s := &p.Status
	begun := s.Donor != nil || s.Image != nil || s.Phase == "Growing"
	return annotated && begun && s.Record == nil && !s.Terminal()
}

// ReplacesDonor reports whether the running capture of an earlier version holds a donor that it replaces by another node, or has
// begun before it had a donor. This version removes no node.
func ReplacesDonor(p *Prototype) bool {
	r := p.Status.Record
	switch {
	case p.Status.Terminal():
		return false
	case p.Spec.Donor == Donor{}:
		return r != nil
	}
	return r != nil && r.Reservation != nil && r.Reservation.Replaces()
}

// Replaces reports whether an earlier version replaces the held donor by another node.
func (r Reservation) Replaces() bool { return len(r.Replacement) > 0 }
