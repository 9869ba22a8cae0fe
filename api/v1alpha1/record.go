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

// Reservation names the holder of a Node, the time of the begin, and the state to restore. The Node carries the Reservation
// (ReservationAnnotation); a copy in the Prototype's Record outlives the Node.
type Reservation struct {
	Holder `json:",inline"`
	// ReservedAt is when the hold began. The deadline counts from here.
	ReservedAt metav1.Time `json:"reservedAt"`
	// Untouched: the hold changes nothing on the Node, and so there is nothing to restore.
	Untouched bool `json:"untouched,omitempty"`
	// Unschedulable reports that the node was cordoned before.
	Unschedulable bool `json:"unschedulable"`
	// Protection is the cloud's token of the earlier scale-in protection; empty if the cloud has no protection.
	Protection string `json:"protection,omitempty"`
	// Annotations that the hold changes, with their earlier values; nil for an absent annotation.
	Annotations FormerAnnotations `json:"annotations,omitempty"`
	// GeneralizeBootID is the boot under which the disk may have changed, as in the Record: the node must not return to
	// service under this boot. Empty before the order.
	GeneralizeBootID string `json:"generalizeBootID,omitempty"`
	// DownBootID is the last boot of the node before a shutdown for the holder, as in the Record.
	DownBootID string `json:"downBootID,omitempty"`
	// ReturningSince is the time of the record that the disk is no longer needed and the node starts again.
	ReturningSince *metav1.Time `json:"returningSince,omitempty"`
	// MissingSince is the time of the first of consecutive answers of the cloud that the instance does not exist; nil while the
	// instance exists. A single answer proves nothing.
	MissingSince *metav1.Time `json:"missingSince,omitempty"`
	// AgreedSince is the time of the first of consecutive looks at which the list of the pool said the same; nil if the last look
	// found a contradiction.
	AgreedSince *metav1.Time `json:"agreedSince,omitempty"`
	// Replacement is what an earlier version recorded of a donor that it replaces by another node: see Replaces.
	Replacement json.RawMessage `json:"replacement,omitempty"`
	// Rebuild is a replacement's lasting state about the node; nil for other holders.
	Rebuild *Rebuild `json:"rebuild,omitempty"`
}

// FormerAnnotations are annotations by key, with their values before a hold; nil for an absent annotation. As JSON they are a
// list, because a merge patch drops null.
type FormerAnnotations map[string]*string

// formerAnnotation is an annotation before a hold; without a value the annotation was absent.
type formerAnnotation struct {
	Key   string  `json:"key"`
	Value *string `json:"value,omitempty"`
}

// MarshalJSON writes the list, in the order of the keys.
func (a FormerAnnotations) MarshalJSON() ([]byte, error) {
	list := make([]formerAnnotation, 0, len(a))
	for _, key := range slices.Sorted(maps.Keys(a)) {
		list = append(list, formerAnnotation{Key: key, Value: a[key]})
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads the list, or the object of earlier versions.
func (a *FormerAnnotations) UnmarshalJSON(text []byte) error {
	var list []formerAnnotation
	if err := json.Unmarshal(text, &list); err != nil {
		return json.Unmarshal(text, (*map[string]*string)(a))
	}
	*a = make(FormerAnnotations, len(list))
	for _, one := range list {
		(*a)[one.Key] = one.Value
	}
	return nil
}

// Record is the lasting state of a capture, in the status of the Prototype. The engine writes each field before the
// effect, and believes only a record with the Prototype's own UID: see RecordOf.
type Record struct {
	// UID of the Prototype. A backup may restore the status of another Prototype of the same name.
	UID types.UID `json:"uid"`
	// Reservation of the donor; nil before the reservation and after the release.
	Reservation *Reservation `json:"reservation,omitempty"`
	// BuiltFrom is the version of the donor's image, from the cloud at the reservation; empty for another image. The new
	// version records this lineage.
	BuiltFrom string `json:"builtFrom,omitempty"`
	// Recipe is the image in the pool's recipe at the reservation; empty if unknown.
	Recipe string `json:"recipe,omitempty"`
	// DiskCheckStartedAt is the creation time of the pod that checks the disk of a donor in service; nil before, and after
	// the reservation.
	DiskCheckStartedAt *metav1.Time `json:"diskCheckStartedAt,omitempty"`
	// GeneralizeBootID is the donor's boot ID when the generalize pod was ordered. A donor that still
	// runs under this boot ID may have lost parts of its identity and must not go back into service.
	GeneralizeBootID string `json:"generalizeBootID,omitempty"`
	// DownBootID is the last boot of a donor that another client stopped before any change of the disk. The donor serves
	// again only under another boot.
	DownBootID string `json:"downBootID,omitempty"`
	// RulesDigest is the RulesDigest of settings.generalize.rules when the generalize pod was ordered. The pod
	// refuses other rules. Empty if the settings name none.
	RulesDigest string `json:"rulesDigest,omitempty"`
	// NodeOrder that the donor is generalized by, and whose pod alone is believed. Absent where a version before there
	// were orders has begun the capture.
	Order *OrderRecord `json:"order,omitempty"`
	// Copy is the capture by copy; nil for a capture in place.
	Copy *CopyRecord `json:"copy,omitempty"`
	// Returning: the donor's disk is no longer needed; its power comes back and must not be taken again.
	Returning bool `json:"returning,omitempty"`
	// DonorGone: the donor's instance was gone, so the capture has left the reservation of the Node to the Node's end: the Lease
	// stays until the Node is gone too.
	DonorGone bool `json:"donorGone,omitempty"`
	// Missing is the pool, version or trial that the cloud does not find; nil while the object exists.
	// +listType=map
	// +listMapKey=object
	Missing []MissingRecord `json:"missing,omitempty"`
	// Patch of a pioneer; nil before the patch.
	Patch *PatchRecord `json:"patch,omitempty"`
	// TrialMode that the capture began with. Absent where a version without a default of the mode has begun the capture.
	TrialMode TrialMode `json:"trialMode,omitempty"`
	// Trial of the version; nil before its first attempt is decided.
	Trial *TrialRecord `json:"trial,omitempty"`
	// Retired are the versions to delete after the promotion, recorded before the first deletion.
	Retired []string `json:"retired,omitempty"`
}

// CopyRecord is the lasting state of a capture by copy: the workshop, and the current copy of the donor's disk.
type CopyRecord struct {
	// Workshop is the machine on which the copy is cleaned, and Workshops the number so far: a fresh one follows a lost one.
	Workshop  WorkshopRecord `json:"workshop,omitzero"`
	Workshops int32          `json:"workshops,omitempty"`
	// Try is the number of copies so far. The names of snapshot and disk have the number.
	Try int32 `json:"try,omitempty"`
	// Moment is the UID of the NodeOrder of the try, with method Quiesce. Nonce is the content of the file that proves the last
	// flush.
	Moment types.UID `json:"moment,omitempty"`
	Nonce  string    `json:"nonce,omitempty"`
	// Snapshot is the cloud's ID of the snapshot of the running disk. Accepted: the cloud accepted it while the disk was quiet.
	Snapshot string `json:"snapshot,omitempty"`
	Accepted bool   `json:"accepted,omitempty"`
	// Disk has the disk's machine ID and UUID, and how long it was frozen, as the pod on the donor reported.
	Disk *Moment `json:"disk,omitempty"`
	// Software are the tags that describe the donor's software at the moment of the copy.
	Software map[string]string `json:"software,omitempty"`
	// Message is why an earlier copy was discarded, or an earlier workshop lost.
	Message string `json:"message,omitempty"`
}

// WorkshopRecord is the lasting state of a workshop.
type WorkshopRecord struct {
	// Name in the cloud; empty before the begin, and after nothing was left of it.
	Name string `json:"name,omitempty"`
	// StartedAt is the time of the decision.
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// Instance is the provider ID, and Nodes are its Nodes with what Kamino changed on each.
	Instance string            `json:"instance,omitempty"`
	Nodes    []TrialNodeRecord `json:"nodes,omitempty"`
	// Boot is the boot of the Node in which the first copy was attached. A later boot may be of the donor's system. AwaySince is since
	// when the Node is not Ready in that boot.
	Boot      string       `json:"boot,omitempty"`
	AwaySince *metav1.Time `json:"awaySince,omitempty"`
	// Free is since when the proven disk is attached to no machine, and Heartbeat the version of the kubelet's Lease then.
	Free      *metav1.Time `json:"free,omitempty"`
	Heartbeat string       `json:"heartbeat,omitempty"`
	// CleaningUp: whatever there is of the workshop is removed. CleanupStartedAt is since when.
	CleaningUp       bool         `json:"cleaningUp,omitempty"`
	CleanupStartedAt *metav1.Time `json:"cleanupStartedAt,omitempty"`
}

// MissingRecord is an object of a capture that the cloud does not find. A single answer proves nothing.
type MissingRecord struct {
	// Object is "pool", "version", "trial", "workshop", "copy" or "power-off".
	Object string `json:"object"`
	// Since is the time of the first of consecutive answers, and Last of the last that was recorded: one each minute. An answer
	// long after Last is a first answer again.
	Since metav1.Time `json:"since"`
	Last  metav1.Time `json:"last"`
	// AgreedSince is the time of the first of consecutive answers that a list confirmed; nil if a list contradicts.
	AgreedSince *metav1.Time `json:"agreedSince,omitempty"`
}

// TrialRecord is the lasting state of a trial. While the capture lives, the record holds the verdict, and the tags of the image
// are its copy.
type TrialRecord struct {
	// Attempt is the number of decided attempts.
	Attempt int32 `json:"attempt"`
	// Name of the attempt in the cloud; empty after the cleanup.
	Name string `json:"name,omitempty"`
	// TypesPassed is the number of machine types on which the version has passed: the pool's, then those of the settings in
	// their order. EarlierAttempts are the attempts on those.
	TypesPassed     int32 `json:"typesPassed,omitempty"`
	EarlierAttempts int32 `json:"earlierAttempts,omitempty"`
	// StartedAt is the time of the first attempt on the type, at which the timeout begins, and AttemptStartedAt the time of this attempt.
	StartedAt        metav1.Time `json:"startedAt"`
	AttemptStartedAt metav1.Time `json:"attemptStartedAt"`
	// Nodes are the attempt's instances, each with the Nodes that name the instance, in the order of discovery. Nodes that
	// clients delete stay in the list.
	Nodes []TrialNodeRecord `json:"nodes,omitempty"`
	// RunningSince is when the attempt's instance was first seen to run.
	RunningSince *metav1.Time `json:"runningSince,omitempty"`
	// ObservedAt is the time of the last look, to a minute. Unobserved is the time without a look before ObservedAt, and FailedReads the
	// number of failed looks in a row.
	ObservedAt  *metav1.Time    `json:"observedAt,omitempty"`
	Unobserved  metav1.Duration `json:"unobserved,omitzero"`
	FailedReads int             `json:"failedReads,omitempty"`
	// Reboot is the restart of the attempt's instance; nil before the decision.
	Reboot *TrialReboot `json:"reboot,omitempty"`
	// CleaningUp: whatever there is of the attempt is removed.
	CleaningUp bool `json:"cleaningUp,omitempty"`
	// CleanupStartedAt is since when.
	CleanupStartedAt *metav1.Time `json:"cleanupStartedAt,omitempty"`
	// CleanedUpAt is when nothing was left of the last attempt.
	CleanedUpAt *metav1.Time `json:"cleanedUpAt,omitempty"`
	// PassedAt is when the version passed; nil before.
	PassedAt *metav1.Time `json:"passedAt,omitempty"`
	// Failure is the whole message of the verdict on a failed version, with Warning events. The tag of the image has the
	// beginning.
	Failure string `json:"failure,omitempty"`
	// CloudError is the cloud's answer for a missing instance, until an instance of a later attempt runs.
	CloudError *TrialCloudError `json:"cloudError,omitempty"`
}

// TrialReboot is the restart of a trial's instance. It is recorded before the cloud is asked, and again when the cloud has accepted it.
type TrialReboot struct {
	// Boot is the boot ID of the Node at the decision. Another boot needs no restart any more.
	Boot string `json:"boot"`
	// AcceptedAt is when the cloud accepted the restart; nil before.
	AcceptedAt *metav1.Time `json:"acceptedAt,omitempty"`
	// Skipped is why the cloud was not asked, or why it refused for good; empty without a reason.
	Skipped string `json:"skipped,omitempty"`
}

// TrialNodeRecord is an instance of a trial with a Node that names the instance, and Kamino's observations and changes of
// the Node. The Node itself is no source: any client with write access to Nodes could change the values.
type TrialNodeRecord struct {
	// Instance is the provider ID.
	Instance string `json:"instance"`
	// Node and UID of the Node; empty until one names the instance.
	Node string    `json:"node,omitempty"`
	UID  types.UID `json:"uid,omitempty"`
	// Boot is the first boot of the Node.
	Boot string `json:"boot,omitempty"`
	// SecondBoot is the boot after the restart of the instance; nil before.
	SecondBoot *TrialBoot `json:"secondBoot,omitempty"`
	// Cordoned and Excluded report that the trial cordoned the Node, and removed the Node from load balancers' backends.
	Cordoned bool `json:"cordoned,omitempty"`
	Excluded bool `json:"excluded,omitempty"`
	// Ready is the kubelet's report at the last observed change, and Since the time of that observation. KubeletTime is the
	// kubelet's own time, for comparisons only. FirstReady is the time of the first Ready, with the number of Images.
	Ready       bool        `json:"ready,omitempty"`
	Since       metav1.Time `json:"since,omitzero"`
	KubeletTime string      `json:"kubeletTime,omitempty"`
	FirstReady  metav1.Time `json:"firstReady,omitzero"`
	Images      int32       `json:"images,omitempty"`
	// FirstTaints are the taints at the first look, as text, that only an autoscaler sets: here they came from the disk.
	FirstTaints []string `json:"firstTaints,omitempty"`
	// Pods of the trial by role, and the user's Job.
	Pods map[string]types.UID `json:"pods,omitempty"`
	// Logs is whether the API server read the log of a pod on the Node; nil before the first try.
	Logs *TrialLogs `json:"logs,omitempty"`
	// WithoutProviderID: the Node has no provider ID.
	WithoutProviderID bool `json:"withoutProviderID,omitempty"`
	// DaemonSets are the pods of DaemonSets on the Node, by namespace/name.
	DaemonSets map[string]TrialDaemonSet `json:"daemonSets,omitempty"`
	// Comparison is the latest comparison with the other nodes of the pool.
	Comparison *TrialComparison `json:"comparison,omitempty"`
}

// TrialBoot is a boot of a trial node. ReadyAt is the time of its first Ready.
type TrialBoot struct {
	ID      string      `json:"id"`
	ReadyAt metav1.Time `json:"readyAt,omitzero"`
}

// TrialLogs is the final result as text, or since when the API server did not read a log.
type TrialLogs struct {
	Result      string      `json:"result,omitempty"`
	UnreadSince metav1.Time `json:"unreadSince,omitzero"`
}

// TrialDaemonSet is the youngest pod of a DaemonSet on a trial node.
type TrialDaemonSet struct {
	// Pod and Generation are the UID and the template generation of the pod; empty without a pod.
	Pod        types.UID `json:"pod,omitempty"`
	Generation string    `json:"generation,omitempty"`
	// UnreadySince is when Kamino first saw the DaemonSet not Ready, without a break since then.
	UnreadySince metav1.Time `json:"failedReadsySince,omitzero"`
	// WasReady is true if the pod was Ready, with so many Restarts at that time.
	WasReady bool  `json:"wasReady,omitempty"`
	Restarts int32 `json:"restarts,omitempty"`
}

// TrialComparison is a comparison of a trial node with the other nodes of the pool.
type TrialComparison struct {
	At metav1.Time `json:"at"`
	// Others is the number of compared nodes. Skipped is the reason against a comparison.
	Others  int    `json:"others,omitempty"`
	Skipped string `json:"skipped,omitempty"`
	// Oldest is when the oldest instance of a version of the pool was created.
	Oldest metav1.Time `json:"oldest,omitzero"`
	// Differences of the node, each with the time of the first comparison without a break. Notes name what was not
	// compared.
	Differences []TrialDifference `json:"differences,omitempty"`
	Notes       []string          `json:"notes,omitempty"`
	// Expectations are the results of the user's expressions.
	Expectations []TrialExpectationResult `json:"expectations,omitempty"`
}

// TrialDifference is a difference from all other nodes of the pool.
type TrialDifference struct {
	Name    string      `json:"name"`
	Message string      `json:"message"`
	Since   metav1.Time `json:"since"`
}

// TrialExpectationResult is the result of a user's expression, and since when.
type TrialExpectationResult struct {
	Name string `json:"name"`
	Met  bool   `json:"met,omitempty"`
	// Error of the evaluation; empty without an error.
	Error string      `json:"error,omitempty"`
	Since metav1.Time `json:"since"`
}

// TrialCloudError is a cloud's answer to the request for a trial's instance. The cloud forgets the answer: after the restore
// of its recipe, a pool no longer reports why the pool did not grow.
type TrialCloudError struct {
	// Attempt of the answer.
	Attempt int32 `json:"attempt"`
	// Message is the cloud's own, its code in front.
	Message string `json:"message"`
	// LacksCapacity: quota or capacity is missing. BlamesImage: the cloud is known to give this answer for faulty images.
	LacksCapacity bool `json:"lacksCapacity,omitempty"`
	BlamesImage   bool `json:"blamesImage,omitempty"`
}

// LeaveBoot is the boot that the donor must leave before a return to service, because of a changed disk or a shutdown;
// empty without such a boot.
func (r Record) LeaveBoot() string { return cmp.Or(r.GeneralizeBootID, r.DownBootID) }

// LeaveBoot is as the Record's.
func (r Reservation) LeaveBoot() string { return cmp.Or(r.GeneralizeBootID, r.DownBootID) }

// ReservationOf reads the reservation from a Node's annotations; nil without a reservation. An unreadable reservation is an
// error: another client changed the annotation, and a guess could release a node of another holder.
func ReservationOf(annotations map[string]string) (*Reservation, error) {
	if err := refuseRetired(annotations, ReservationAnnotation); err != nil {
		return nil, err
	}
	r, err := decode[Reservation](annotations, ReservationAnnotation)
	if r != nil {
		r.complete()
	}
	return r, err
}

// RecordOf returns the record of a Prototype; an empty one if there is none. A record of another Prototype, and a record
// that this version of Kamino cannot read as a whole, is an error.
func RecordOf(p *Prototype) (Record, error) {
	if err := p.Unreadable.in("status.record"); err != nil {
		return Record{}, err
	}
	switch r := p.Status.Record; {
	case r == nil:
		return Record{}, nil
	case r.UID != p.UID:
		return Record{}, fmt.Errorf("status.record names UID %q, but the prototype has UID %q", r.UID, p.UID)
	default:
		return *r.DeepCopy(), nil
	}
}

// RulesDigest is "sha256:" and the hex digest of a user's own files in the order of their names, as from `cat * |
// sha256sum`. Names that begin with a dot are left out.
func RulesDigest(files map[string][]byte) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(name, ".") {
			sum.Write(files[name])
		}
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// ContentsDigest is "sha256:" and the hex digest of a stored list of contents.
func ContentsDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// retiredFields are fields that earlier versions wrote into reservations. Without the values, Kamino would restore a node
// wrongly.
var retiredFields = []string{"scaleInProtected", "hold", "departure"}

// refuseRetired returns an error that names a retired field in the annotation.
func refuseRetired(annotations map[string]string, key string) error {
	for _, field := range retiredFields {
		if strings.Contains(annotations[key], `"`+field+`":`) {
			return fmt.Errorf("annotation %s has the field %s of an earlier version of Kamino", key, field)
		}
	}
	return nil
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
