package plan

import (
	"testing"
	"time"
)

// TestDoubtOf: no single witness suffices, whatever it says and however long.
func TestDoubtOf(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		absence Absence
		want    Doubt
	}{
		"the first look":                        {Absence{List: ListWithout, Node: NodeNotReady}, NotAgain},
		"the first look, without a Node":        {Absence{List: ListWithout}, NotAgain},
		"before a minute":                       {Absence{List: ListWithout, Since: time.Minute - 1}, NotAgain},
		"the second look":                       {Absence{List: ListWithout, Node: NodeNotReady, Since: time.Minute}, NoDoubt},
		"removed by Kamino":                     {Absence{List: ListWithout, Node: NodeNotReady, Requested: true}, NoDoubt},
		"removed by Kamino, without a list":     {Absence{Requested: true}, NotAgain},
		"removed by Kamino, and still listed":   {Absence{List: ListHas, Requested: true, Since: day}, IsListed},
		"removed by Kamino, and still reports":  {Absence{List: ListWithout, Node: NodeReady, Requested: true, Since: day}, KubeletReports},
		"listed for a day":                      {Absence{List: ListHas, Since: day}, IsListed},
		"the kubelet reports for a day":         {Absence{List: ListWithout, Node: NodeReady, Since: day}, KubeletReports},
		"no list for a day, with a Node":        {Absence{Node: NodeNotReady, Since: day}, IsUnlisted},
		"no list for a minute, without a Node":  {Absence{Since: time.Minute}, NotAgain},
		"no list for ten minutes, and no Node":  {Absence{Since: 10 * time.Minute}, NoDoubt},
		"no list for ten minutes, with a Node":  {Absence{Node: NodeNotReady, Since: 10 * time.Minute}, IsUnlisted},
		"listed, and the Node is gone for days": {Absence{List: ListHas, Since: 9 * day}, IsListed},
	} {
		if got := DoubtOf(c.absence); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
