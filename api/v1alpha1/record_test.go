package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

func proof() v1alpha1.Proof {
	return v1alpha1.Proof{
		UID: "u", BootID: "b", Profile: v1alpha1.ProfileStatic, ProfileVersion: "1", ToolVersion: "t",
		Rules: 40, Met: 40, ManifestDigest: "sha256:0123", At: metav1.NewTime(time.Unix(1_800_000_000, 0).UTC()),
	}
}

func TestProofHolds(t *testing.T) {
	tests := map[string]struct {
		change func(*v1alpha1.Proof)
		uid    types.UID
		boot   string
		want   bool
	}{
		"as it should be":         {uid: "u", boot: "b", want: true},
		"of another Prototype":    {uid: "v", boot: "b"},
		"of another boot":         {uid: "u", boot: "c"},
		"of no boot":              {change: func(p *v1alpha1.Proof) { p.BootID = "" }, uid: "u", boot: ""},
		"a rule was not met":      {change: func(p *v1alpha1.Proof) { p.Met-- }, uid: "u", boot: "b"},
		"no rule at all":          {change: func(p *v1alpha1.Proof) { p.Rules, p.Met = 0, 0 }, uid: "u", boot: "b"},
		"a number that is no one": {change: func(p *v1alpha1.Proof) { p.Rules, p.Met = -1, -1 }, uid: "u", boot: "b"},
		"something was found":     {change: func(p *v1alpha1.Proof) { p.Search = &v1alpha1.Search{Findings: 1} }, uid: "u", boot: "b"},
		"nothing was found":       {change: func(p *v1alpha1.Proof) { p.Search = &v1alpha1.Search{Files: 9} }, uid: "u", boot: "b", want: true},
		"without a manifest":      {change: func(p *v1alpha1.Proof) { p.ManifestDigest = "" }, uid: "u", boot: "b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := proof()
			if test.change != nil {
				test.change(&p)
			}
			if got := p.Holds(test.uid, test.boot); got != test.want {
				t.Errorf("Holds = %v, want %v", got, test.want)
			}
		})
	}
	if (*v1alpha1.Proof)(nil).Holds("", "") {
		t.Error("no proof holds")
	}
}

func TestRecordsAreReadBack(t *testing.T) {
	before := "false"
	reservation := v1alpha1.Reservation{
		Holder:     v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "workers-2026.11.21", UID: "u"},
		ReservedAt: metav1.NewTime(time.Unix(1_800_000_000, 0).Local()), Unschedulable: true,
		Annotations: map[string]*string{v1alpha1.ScaleDownDisabledAnnotation: &before, v1alpha1.DoNotDisruptAnnotation: nil},
	}
	record := v1alpha1.Record{UID: "u", Reservation: &reservation, GeneralizeBootID: "b", Retired: []string{"2026.11.20"}}
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	p.Status.Record = &record

	gotRecord, err := v1alpha1.RecordOf(p)
	if diff := cmp.Diff(record, gotRecord); err != nil || diff != "" {
		t.Errorf("RecordOf: %v (-want +got):\n%s", err, diff)
	}
	gotReservation, err := v1alpha1.ReservationOf(map[string]string{v1alpha1.ReservationAnnotation: text(t, reservation)})
	if diff := cmp.Diff(&reservation, gotReservation); err != nil || diff != "" {
		t.Errorf("ReservationOf: %v (-want +got):\n%s", err, diff)
	}
}

// TestNilIsNoError: absence is no error, but an unreadable value is an error: a guess could release a node of
// another capture.
func TestNilIsNoError(t *testing.T) {
	for _, annotations := range []map[string]string{nil, {}, {v1alpha1.ReservationAnnotation: ""}} {
		if r, err := v1alpha1.ReservationOf(annotations); r != nil || err != nil {
			t.Errorf("ReservationOf(%v) = %v, %v", annotations, r, err)
		}
	}
	if r, err := v1alpha1.RecordOf(&v1alpha1.Prototype{}); !cmp.Equal(r, v1alpha1.Record{}) || err != nil {
		t.Errorf("RecordOf = %v, %v", r, err)
	}

	for name, p := range map[string]*v1alpha1.Prototype{
		"of another Prototype": {ObjectMeta: metav1.ObjectMeta{UID: "u"},
			Status: v1alpha1.PrototypeStatus{Record: &v1alpha1.Record{UID: "v", Returning: true}}},
		"of no Prototype": {ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: v1alpha1.PrototypeStatus{Record: &v1alpha1.Record{Returning: true}}},
	} {
		if r, err := v1alpha1.RecordOf(p); err == nil || r.Returning {
			t.Errorf("a record %s is believed: %+v", name, r)
		}
	}
	broken := &v1alpha1.Prototype{}
	if err := json.Unmarshal([]byte(`{"metadata":{"uid":"u"},"status":{"record":{"uid":"u","returning":"?"}}}`), broken); err != nil {
		t.Fatal(err)
	}
	if r, err := v1alpha1.RecordOf(broken); err == nil || !strings.Contains(err.Error(), "status.record.returning") || r.UID != "" {
		t.Errorf("a broken record: %+v, %v, want an error that names the field", r, err)
	}
}

// TestOldAnnotationsAreNoRecord: the creator of a Prototype chooses its annotations.
func TestOldAnnotationsAreNoRecord(t *testing.T) {
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{
		v1alpha1.FormerRecordAnnotation: `{"uid":"u","generalizeBootID":"b","returning":true}`,
	}}}
	if r, err := v1alpha1.RecordOf(p); !cmp.Equal(r, v1alpha1.Record{}) || err != nil {
		t.Errorf("RecordOf = %+v, %v", r, err)
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTagFits keeps the tag within Azure's limit for a tag's value: 256 characters.
func TestTagFits(t *testing.T) {
	p := proof()
	p.Profile, p.ProfileVersion, p.ManifestDigest = v1alpha1.ProfileBootstrap, "2026.11.21", "sha256:"+strings.Repeat("f", 64)
	if tag := p.Tag(); len(tag) > 256 || strings.Count(tag, "/") != 2 {
		t.Errorf("tag %q has %d characters", tag, len(tag))
	}
}

// TestPrototypeName is about every pool name that the CRD's pattern takes.
func TestPrototypeName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := rapid.StringMatching(`[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?`).Draw(t, "pool")
		attempt := rapid.IntRange(1, 99).Draw(t, "attempt")
		name := v1alpha1.PrototypeName(pool, "2026.11.21", attempt)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Fatalf("%q is not a name: %v", name, problems)
		}
		if len(name) > 230 {
			t.Fatalf("%q has %d characters", name, len(name))
		}
		for _, value := range []string{v1alpha1.LabelValue(name), v1alpha1.LabelValue(v1alpha1.ObjectName(pool))} {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Fatalf("%q is not the value of a label: %v", value, problems)
			}
		}
	})

	tests := []struct {
		pool    string
		attempt int
		want    string
	}{
		{"workers", 1, "workers-2026.11.21"},
		{"workers", 2, "workers-2026.11.21-2"},
		{"Workers_A", 1, "workers-a-2026.11.21"},
	}
	for _, test := range tests {
		if got := v1alpha1.PrototypeName(test.pool, "2026.11.21", test.attempt); got != test.want {
			t.Errorf("PrototypeName(%q, %d) = %q, want %q", test.pool, test.attempt, got, test.want)
		}
	}
}

func TestLabelValueSeparatesLongNames(t *testing.T) {
	long := strings.Repeat("w", 64)
	first, second := v1alpha1.LabelValue(long+"-2026.11.21"), v1alpha1.LabelValue(long+"-2026.11.22")
	if first == second || len(first) != 63 {
		t.Errorf("%q and %q: want two values of 63 characters", first, second)
	}
	if short := v1alpha1.LabelValue("workers-2026.11.21"); short != "workers-2026.11.21" {
		t.Errorf("a name that fits became %q", short)
	}
}

// TestVerifiedFitsATag keeps the verification within a cloud's limit of 256 characters.
func TestVerifiedFitsATag(t *testing.T) {
	p := proof()
	p.ToolVersion = strings.Repeat("v", 300)
	p.Search = &v1alpha1.Search{Files: 1 << 62, Bytes: 1 << 62, Identities: 1 << 40, Findings: 1 << 40, Kept: 1 << 40}
	if tag := p.Verified(); len(tag) > 256 {
		t.Errorf("the tag has %d characters: %s", len(tag), tag)
	}
	if got := (&v1alpha1.Unproven{UID: "u", BootID: "b"}); !got.Speaks("u", "b") || got.Speaks("u", "c") || got.Speaks("v", "b") ||
		(*v1alpha1.Unproven)(nil).Speaks("u", "b") {
		t.Error("the word on a missing proof is taken for another's")
	}
}

// TestProofNamesItsOrder: the record's order and token; without an order, as from early versions, the token alone.
func TestProofNamesItsOrder(t *testing.T) {
	for _, c := range []struct {
		name        string
		order       types.UID
		boot        string
		record      v1alpha1.Record
		want, whole bool
	}{
		{"its own", "o", "b", v1alpha1.Record{GeneralizeBootID: "b", Order: &v1alpha1.OrderRecord{UID: "o"}}, true, true},
		{"no version recorded", "", "b", v1alpha1.Record{GeneralizeBootID: "b", Order: &v1alpha1.OrderRecord{UID: "o"}}, true, true},
		{"another order", "p", "b", v1alpha1.Record{GeneralizeBootID: "b", Order: &v1alpha1.OrderRecord{UID: "o"}}, false, true},
		{"another token", "o", "c", v1alpha1.Record{GeneralizeBootID: "b", Order: &v1alpha1.OrderRecord{UID: "o"}}, false, true},
		{"no order in the record", "o", "b", v1alpha1.Record{GeneralizeBootID: "b"}, false, true},
		{"no token", "o", "", v1alpha1.Record{Order: &v1alpha1.OrderRecord{UID: "o"}}, false, true},
		{"down, and never ordered", "", "b", v1alpha1.Record{DownBootID: "b"}, false, true},
		{"a rule unmet", "o", "b", v1alpha1.Record{GeneralizeBootID: "b", Order: &v1alpha1.OrderRecord{UID: "o"}}, false, false},
	} {
		proof := &v1alpha1.Proof{UID: "u", Order: c.order, BootID: c.boot, Rules: 2, Met: 1, ManifestDigest: "sha256:0"}
		if c.whole {
			proof.Met = 2
		}
		if got := c.record.Proves(proof, "u"); got != c.want {
			t.Errorf("%s: proves %t, want %t", c.name, got, c.want)
		}
		if c.record.Proves(proof, "v") || c.record.Proves(nil, "u") || c.record.Answers(nil, "u") {
			t.Errorf("%s: it speaks of another Prototype, or is none", c.name)
		}
		unproven := &v1alpha1.Unproven{UID: "u", Order: c.order, BootID: c.boot}
		if got := c.record.Answers(unproven, "u"); c.whole && got != c.want {
			t.Errorf("%s: that there is none answers it: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestProofOfACopyNamesItsDisk: the order, the snapshot and the device; a proof of a boot is no proof of a copy, and a proof of a copy is
// none of a boot.
func TestProofOfACopyNamesItsDisk(t *testing.T) {
	disk := func(snapshot, device string) *v1alpha1.CopiedDisk {
		return &v1alpha1.CopiedDisk{Snapshot: snapshot, Device: device}
	}
	ordered := v1alpha1.Record{Order: &v1alpha1.OrderRecord{UID: "o", Copy: disk("snap-1", "vol-1")}}
	for _, c := range []struct {
		name   string
		proof  v1alpha1.Proof
		record v1alpha1.Record
		want   bool
	}{
		{"its own", v1alpha1.Proof{Order: "o", Copy: disk("snap-1", "vol-1")}, ordered, true},
		{"another snapshot", v1alpha1.Proof{Order: "o", Copy: disk("snap-2", "vol-1")}, ordered, false},
		{"another device", v1alpha1.Proof{Order: "o", Copy: disk("snap-1", "vol-2")}, ordered, false},
		{"another order", v1alpha1.Proof{Order: "p", Copy: disk("snap-1", "vol-1")}, ordered, false},
		{"no order", v1alpha1.Proof{Copy: disk("snap-1", "vol-1")}, ordered, false},
		{"no device", v1alpha1.Proof{Order: "o", Copy: disk("snap-1", "")}, v1alpha1.Record{Order: &v1alpha1.OrderRecord{UID: "o", Copy: disk("snap-1", "")}}, false},
		{"a boot", v1alpha1.Proof{Order: "o", BootID: "b"}, v1alpha1.Record{GeneralizeBootID: "b", Order: ordered.Order}, false},
		{"a boot that is spelled like a copy", v1alpha1.Proof{Order: "o", BootID: "snap-1@vol-1", Copy: disk("snap-1", "vol-1")}, ordered, false},
		{"a copy, for an order of a boot", v1alpha1.Proof{Order: "o", Copy: disk("snap-1", "vol-1")}, v1alpha1.Record{GeneralizeBootID: "b", Order: &v1alpha1.OrderRecord{UID: "o"}}, false},
	} {
		c.proof.UID, c.proof.Rules, c.proof.Met, c.proof.ManifestDigest = "u", 1, 1, "sha256:0"
		if got := c.record.Proves(&c.proof, "u"); got != c.want {
			t.Errorf("%s: proves %t, want %t", c.name, got, c.want)
		}
		unproven := &v1alpha1.Unproven{UID: "u", Order: c.proof.Order, BootID: c.proof.BootID, Copy: c.proof.Copy}
		if got := c.record.Answers(unproven, "u"); got != c.want {
			t.Errorf("%s: that there is none answers it: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestARetiredFieldIsRefusedByName: without the value, Kamino would restore a node or a pool wrongly.
func TestARetiredFieldIsRefusedByName(t *testing.T) {
	for field, value := range map[string]string{"scaleInProtected": "true", "hold": `"token"`, "departure": `{"removing":true}`} {
		reservation := `{"name":"p","uid":"u","reservedAt":"2026-03-14T12:00:00Z","` + field + `":` + value + `}`
		want := "has the field " + field + " of an earlier version"
		if r, err := v1alpha1.ReservationOf(map[string]string{v1alpha1.ReservationAnnotation: reservation}); r != nil || err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("the reservation is %+v, %v", r, err)
		}
	}
}
