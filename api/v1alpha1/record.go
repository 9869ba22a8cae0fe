package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reservation says who holds a Node, since when, and how to give it back. It stands on the Node
// (ReservationAnnotation) and, so that it outlives the Node object, in the Prototype's Record.
type Reservation struct {
	Holder `json:",inline"`
	// ReservedAt is when the hold began. The deadline counts from here.
	ReservedAt metav1.Time `json:"reservedAt"`
	// Unschedulable tells whether the node was cordoned before.
	Unschedulable bool `json:"unschedulable"`
	// Hold is the cloud's token of how the instance stood to its pool before; empty where there is nothing to hold.
	Hold string `json:"hold,omitempty"`
	// ScaleInProtected is what versions before there were tokens have written in place of Hold: whether the instance was
	// protected from scale-in before.
	ScaleInProtected *bool `json:"scaleInProtected,omitempty"`
	// Annotations that the hold changes, with their values before; nil where there was none.
	Annotations map[string]*string `json:"annotations,omitempty"`
	// GeneralizeBootID is the boot under which the disk may have been changed, as in the Record: the node must not
	// go back into service under it. Empty before that was ordered.
	GeneralizeBootID string `json:"generalizeBootID,omitempty"`
	// DownBootID is the boot that the node was last seen in before it was down for its holder, as in the Record.
	DownBootID string `json:"downBootID,omitempty"`
	// ReturningSince is when it was written down that the disk is no longer needed and the power comes back.
	ReturningSince *metav1.Time `json:"returningSince,omitempty"`
	// Departure is that of a capture's donor which does not return, as in the Record; nil for any other node.
	Departure *Departure `json:"departure,omitempty"`
	// Rebuild is what a replacement must not forget of the node; nil where something else holds it.
	Rebuild *Rebuild `json:"rebuild,omitempty"`
}

// Departure is how far a donor is that does not return, and how far the node that takes its place. It stands in the Record
// and in the reservation, because either may be all that is left of a capture.
type Departure struct {
	// GrowFirst: the pool grows before the donor is taken; otherwise its place is filled once it is gone.
	GrowFirst bool `json:"growFirst,omitempty"`
	// Target is how many nodes the pool is meant to have by its growth, which goes there from one fewer; 0 before that is
	// decided. It is decided anew where the pool has become smaller than that.
	Target int64 `json:"target,omitempty"`
	// DecidedAt is when a growth was first decided. The time of the node that comes by it runs from here.
	DecidedAt *metav1.Time `json:"decidedAt,omitempty"`
	// After is the youngest Node's age at that time, by the API server's clock: one that was made later may be the successor.
	After *metav1.Time `json:"after,omitempty"`
	// TakenAt is when the donor was taken out of service behind its successor. The deadline runs from here.
	TakenAt *metav1.Time `json:"takenAt,omitempty"`
	// Successor is the Node for which the donor was taken.
	Successor string `json:"successor,omitempty"`
	// Removing: the donor's disk is no longer needed, and its instance is removed.
	Removing bool `json:"removing,omitempty"`
}

// Record is what a capture must not forget even if its status is lost. Each field is written before the
// effect that it speaks of.
type Record struct {
	// Reservation of the donor; nil before it is made and after the donor is given back.
	Reservation *Reservation `json:"reservation,omitempty"`
	// BuiltFrom is the version that the donor itself was built from, as its cloud told when it was
	// reserved; empty if it came from another image. The new version carries it as its lineage.
	BuiltFrom string `json:"builtFrom,omitempty"`
	// Recipe is the image that the pool's recipe named when the donor was reserved; empty if that is not known.
	Recipe string `json:"recipe,omitempty"`
	// LookingSince is when a pod was last made to look at the donor's disk, while the donor serves; nil before, and once
	// the donor is reserved.
	LookingSince *metav1.Time `json:"lookingSince,omitempty"`
	// GeneralizeBootID is the donor's boot ID when the generalize pod was ordered. A donor that still
	// runs under this boot ID may have lost parts of its identity and must not go back into service.
	GeneralizeBootID string `json:"generalizeBootID,omitempty"`
	// DownBootID is the boot that the donor was last seen in before it was down for the capture though nothing had changed
	// its disk, because somebody stopped it. It serves again only under another one.
	DownBootID string `json:"downBootID,omitempty"`
	// RulesDigest is the RulesDigest of settings.generalize.rules when the generalize pod was ordered. The pod
	// refuses other rules. Empty if the settings name none.
	RulesDigest string `json:"rulesDigest,omitempty"`
	// Order that the donor is generalized by, and whose pod alone is believed. Absent where a version before there
	// were orders has begun the capture.
	Order *OrderRecord `json:"order,omitempty"`
	// Returning: the donor's disk is no longer needed; its power comes back and must not be taken again.
	Returning bool `json:"returning,omitempty"`
	// Departure of a donor that does not return; nil before it is reserved, and for any other donor.
	Departure *Departure `json:"departure,omitempty"`
	// Trial of the version; nil before its first attempt is decided.
	Trial *TrialRecord `json:"trial,omitempty"`
	// ScaleOut is the growth of the pool after the promotion.
	ScaleOut *ScaleOut `json:"scaleOut,omitempty"`
}

// TrialRecord is what must not be forgotten of a trial before there is a verdict, which stands on the image.
type TrialRecord struct {
	// Attempt is how often one was decided.
	Attempt int32 `json:"attempt"`
	// Name of the attempt, as the cloud was given it; empty once nothing is left of it.
	Name string `json:"name,omitempty"`
	// InPool: the pool grows by the instance.
	InPool bool `json:"inPool,omitempty"`
	// Image that the pool's recipe named and the pool's capacity when the attempt was decided. In the pool both are given back.
	Image    string `json:"image,omitempty"`
	Capacity int64  `json:"capacity,omitempty"`
	// StartedAt is when the first attempt was decided, from which the timeout runs, and BegunAt when this one was.
	StartedAt metav1.Time `json:"startedAt"`
	BegunAt   metav1.Time `json:"begunAt"`
	// Nodes are the attempt's instances, each with the Nodes that name it, in the order in which they were first seen. Nodes that
	// other clients delete stay in the list.
	Nodes []TrialNodeRecord `json:"nodes,omitempty"`
	// RunningSince is when the attempt's instance was first seen to run.
	RunningSince *metav1.Time `json:"runningSince,omitempty"`
	// SeenAt is until when somebody has looked, to a minute, Blind for how long nobody could before that, and Unread how many
	// looks in a row have failed.
	SeenAt *metav1.Time    `json:"seenAt,omitempty"`
	Blind  metav1.Duration `json:"blind,omitzero"`
	Unread int             `json:"unread,omitempty"`
	// Ending: whatever there is of the attempt is removed.
	Ending bool `json:"ending,omitempty"`
	// EndingAt is since when. Absent where an earlier version of Kamino wrote the end down.
	EndingAt *metav1.Time `json:"endingAt,omitempty"`
	// EndedAt is when nothing was left of the last attempt.
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// Trouble is what the cloud said of an instance that it did not make, as long as no instance of a later attempt has run.
	Trouble *TrialTrouble `json:"trouble,omitempty"`
}

// TrialNodeRecord is an instance of a trial with a Node that names it, and what Kamino has seen of and done to that Node. Kamino
// does not read it from the Node: every client that may write Nodes could change it there.
type TrialNodeRecord struct {
	// Instance is the provider ID.
	Instance string `json:"instance"`
	// Node and UID of the Node; empty until one names the instance.
	Node string    `json:"node,omitempty"`
	UID  types.UID `json:"uid,omitempty"`
	// Boot that the Node reported first.
	Boot string `json:"boot,omitempty"`
	// Cordoned and Excluded tell that the trial cordoned the Node, and took it out of load balancers' backends.
	Cordoned bool `json:"cordoned,omitempty"`
	Excluded bool `json:"excluded,omitempty"`
	// Ready is what the kubelet said at the last change that was seen, and Since when that was seen. Stamp is the kubelet's own time
	// of the change: it is compared only. FirstReady is when the Node was first seen Ready, with so many Images.
	Ready      bool        `json:"ready,omitempty"`
	Since      metav1.Time `json:"since,omitzero"`
	Stamp      string      `json:"stamp,omitempty"`
	FirstReady metav1.Time `json:"firstReady,omitzero"`
	Images     int32       `json:"images,omitempty"`
	// Pods that the trial made, by their part, and the user's Job.
	Pods map[string]types.UID `json:"pods,omitempty"`
}

// TrialTrouble is a cloud's answer to whoever asked for the instance of a trial. It is kept because the cloud forgets it: a pool whose
// recipe has been given back no longer says why it did not grow.
type TrialTrouble struct {
	// Attempt that it was said of.
	Attempt int32 `json:"attempt"`
	// Text is the cloud's own, its code in front.
	Text string `json:"text"`
	// NoRoom: it has no quota or capacity left. Blames: it is known to say this of images that are at fault.
	NoRoom bool `json:"noRoom,omitempty"`
	Blames bool `json:"blames,omitempty"`
}

// LeaveBoot is the boot that the donor must leave before it serves again, because its disk was changed in it or it was
// down since; empty if there is none.
func (r Record) LeaveBoot() string { return cmp.Or(r.GeneralizeBootID, r.DownBootID) }

// LeaveBoot is as the Record's.
func (r Reservation) LeaveBoot() string { return cmp.Or(r.GeneralizeBootID, r.DownBootID) }

// ScaleOut is a growth that was decided, and whether it has been done.
type ScaleOut struct {
	Target int64 `json:"target"`
	Done   bool  `json:"done,omitempty"`
}

// Proof is what the generalize pod says when every rule was met, after the last file was treated.
type Proof struct {
	// Prototype UID that the run was for.
	UID types.UID `json:"uid"`
	// Order UID that the run was ordered by. Absent in proofs by versions before it was told.
	Order types.UID `json:"order,omitempty"`
	// BootID that the donor ran under, from /proc/sys/kernel/random/boot_id.
	BootID string `json:"bootID"`
	// Profile and its version that were applied.
	Profile        Profile `json:"profile"`
	ProfileVersion string  `json:"profileVersion"`
	// ToolVersion of the binary that ran.
	ToolVersion string `json:"toolVersion"`
	// Rules is the number of rules that were applied, and Met how many of them were found met
	// afterwards. A proof holds only if they are equal and not zero.
	Rules int `json:"rules"`
	Met   int `json:"met"`
	// Acted is how many of the rules found something and changed it.
	Acted int `json:"acted,omitempty"`
	// Search is what the look for secrets and identities saw. Absent in proofs by versions before it was reported.
	Search *Search `json:"search,omitempty"`
	// Credentials are the client certificates that stay on the disk.
	Credentials []Credential `json:"credentials,omitempty"`
	// RulesDigest is "sha256:" and the hex digest of the rules that the user added; empty without any.
	RulesDigest string `json:"rulesDigest,omitempty"`
	// ManifestDigest is "sha256:" and the hex digest of the manifest of the run.
	ManifestDigest string `json:"manifestDigest"`
	// At is when the run ended, by the donor's clock.
	At metav1.Time `json:"at"`
}

// Search is what a look that knows no rules saw: for private keys, tokens and the donor's identities.
type Search struct {
	// Files and Bytes that were read.
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// Identities of the donor that were looked for.
	Identities int `json:"identities"`
	// Findings that may not stay. A proof with any does not hold.
	Findings int `json:"findings"`
	// Kept is how many findings may stay, for a reason that the manifest gives.
	Kept int `json:"kept"`
	// Known is how many files were not searched because packages own them and they are as they came.
	Known int64 `json:"known,omitempty"`
	// Unknown is how many files neither a package nor an image nor the base of the system brought.
	Unknown int64 `json:"unknown,omitempty"`
}

// Unproven is what the generalize pod says when it ends without a proof: the sentence that the kubelet
// cannot be relied on to carry, because the run may have removed the pod's own log and directory.
type Unproven struct {
	// Prototype UID that the run was for.
	UID types.UID `json:"uid"`
	// Order UID that the run was ordered by. Absent in words by versions before it was told.
	Order types.UID `json:"order,omitempty"`
	// BootID that the donor ran under.
	BootID string `json:"bootID"`
	// Why there is no proof: rules and paths by name, and no content.
	Why string `json:"why"`
	// At is when the run ended, by the donor's clock.
	At metav1.Time `json:"at"`
}

// Speaks says whether this is about the donor of this Prototype during the given boot.
func (u *Unproven) Speaks(uid types.UID, bootID string) bool {
	return u != nil && bootID != "" && u.UID == uid && u.BootID == bootID
}

// Holds says whether the proof proves that the disk of this Prototype's donor was generalized during the
// given boot. An empty bootID proves nothing.
func (p *Proof) Holds(uid types.UID, bootID string) bool {
	if p == nil || p.Search != nil && p.Search.Findings > 0 {
		return false
	}
	return bootID != "" && p.BootID == bootID && p.UID == uid && p.Rules > 0 && p.Rules == p.Met && p.ManifestDigest != ""
}

// Proves says whether the proof proves what the record's order demands of the Prototype's disk: it speaks of that order and
// of its token. One by a version that told no order speaks of its token alone.
func (r Record) Proves(p *Proof, uid types.UID) bool {
	return p.Holds(uid, r.GeneralizeBootID) && r.ordered(p.Order)
}

// Answers says whether the word that there is no proof is about the record's order.
func (r Record) Answers(u *Unproven, uid types.UID) bool {
	return u.Speaks(uid, r.GeneralizeBootID) && r.ordered(u.Order)
}

func (r Record) ordered(order types.UID) bool {
	return order == "" || r.Order != nil && r.Order.UID == order
}

// Tag is the proof in the form that snapshots and image versions carry: profile, its version, digest.
func (p *Proof) Tag() string {
	return fmt.Sprintf("%s/%s/%s", p.Profile, p.ProfileVersion, p.ManifestDigest)
}

// Verified is the proof in the form that a status carries.
func (p *Proof) Verified() *Verified {
	v := &Verified{
		Profile: p.Profile, ProfileVersion: p.ProfileVersion, ToolVersion: p.ToolVersion,
		Rules: int64(p.Met), Acted: int64(p.Acted),
		Credentials: p.Credentials, RulesDigest: p.RulesDigest, ManifestDigest: p.ManifestDigest, At: p.At,
	}
	if s := p.Search; s != nil {
		v.Files, v.Bytes = s.Files, s.Bytes
		v.Identities, v.Findings, v.Kept = int64(s.Identities), int64(s.Findings), int64(s.Kept)
	}
	return v
}

// ReservationOf reads the reservation of a Node's annotations; nil if there is none. An unreadable one is
// an error: somebody else's hand was in it, and a guess could release a node that another holder holds.
func ReservationOf(annotations map[string]string) (*Reservation, error) {
	r, err := decode[Reservation](annotations, ReservationAnnotation)
	if r != nil {
		r.complete(annotations)
	}
	return r, err
}

// RecordOf reads the record of a Prototype; an empty one if there is none.
func RecordOf(p *Prototype) (Record, error) {
	r, err := decode[Record](p.Annotations, RecordAnnotation)
	if err != nil || r == nil {
		return Record{}, err
	}
	return *r, nil
}

// ProofOf reads the proof of a Prototype; nil if there is none.
func ProofOf(p *Prototype) (*Proof, error) {
	return decode[Proof](p.Annotations, ProofAnnotation)
}

// RulesDigest is "sha256:" and the hex digest of a user's own files, one after the other in the order of their
// names, as `cat * | sha256sum` tells. Names that begin with a dot are left out.
func RulesDigest(files map[string][]byte) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(name, ".") {
			sum.Write(files[name])
		}
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// UnprovenOf reads why a Prototype's donor was not proven; nil if nothing is said.
func UnprovenOf(p *Prototype) (*Unproven, error) {
	return decode[Unproven](p.Annotations, UnprovenAnnotation)
}

func decode[T any](annotations map[string]string, key string) (*T, error) {
	text, found := annotations[key]
	if !found || text == "" {
		return nil, nil
	}
	value := new(T)
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return nil, fmt.Errorf("annotation %s is not readable: %w", key, err)
	}
	return value, nil
}
