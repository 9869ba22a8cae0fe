package azure

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestCachedScaleSetList: with a read cache, the list of a resource group replaces single reads until the next
// write.
func TestCachedScaleSetList(t *testing.T) {
	a := newARM(t)
	a.pool("")
	a.lists[fold(string(testPool[:strings.LastIndex(string(testPool), "/")]))] = []any{a.documents[fold(string(testPool))]}
	p := a.provider()
	alone, err := p.Pool(t.Context(), testPool)
	if err != nil {
		t.Fatal(err)
	}
	ctx := cloud.WithReadCache(t.Context())
	if _, err := p.PoolsInScope(ctx, testPool); err != nil {
		t.Fatal(err)
	}
	before := a.gets(string(testPool))
	listed, err := p.Pool(ctx, testPool)
	if err != nil || a.gets(string(testPool)) != before {
		t.Errorf("%v, %d reads of the scale set", err, a.gets(string(testPool))-before)
	}
	if listed.Recipe.Image != alone.Recipe.Image || listed.Capacity != alone.Capacity || listed.Recipe.Image == "" {
		t.Errorf("listed %+v, read %+v", listed, alone)
	}
	if _, err := p.Pool(cloud.WithoutReadCache(ctx), testPool); err != nil || a.gets(string(testPool)) != before+1 {
		t.Errorf("without cache: %v, %d reads of the scale set", err, a.gets(string(testPool))-before)
	}
}
