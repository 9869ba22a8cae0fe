package limit

import (
	"testing"
	"time"
)

var testNow = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

func TestVersion(t *testing.T) {
	for version, valid := range map[string]bool{
		"": true, "2026.03.09": true, "2024.02.29": true, "2026.03.10": false, "2027.01.01": false,
		"2026.3.9": false, "2026.02.30": false, "2026.13.01": false, "v1": false, "2026.03.09 ": false, "26.03.09": false,
	} {
		if err := Version(version, testNow); (err == nil) != valid {
			t.Errorf("Version(%q) = %v, want valid %t", version, err, valid)
		}
	}
}
