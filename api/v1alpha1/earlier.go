package v1alpha1

import "fmt"

// EarlierCapture returns a sentence about a capture that an earlier version of Kamino has begun and not ended; empty without
// such a capture. Its record is an annotation, which this version never reads, so the upgrade has to wait. Any
// creator of Prototypes writes annotations: without a status from the engine, the annotation means nothing.
func EarlierCapture(all []Prototype) string {
	for i := range all {
		p := &all[i]
		_, annotated := p.Annotations[FormerRecordAnnotation]
		s := &p.Status
		begun := s.Donor != nil || s.Image != nil || s.Phase == PhaseGrowing
		if annotated && begun && s.Record == nil && !s.Terminal() {
			return fmt.Sprintf("an earlier version of Kamino is capturing with prototype %s (phase %s), and this version cannot continue the capture: "+
				"keep the earlier version until `kubectl get prototypes` shows the end, or delete the Prototype with it. Then upgrade", p.Name, s.Phase)
		}
	}
	return ""
}
