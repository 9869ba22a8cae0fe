package cli

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// parsed is the result of a capture's flags.
func parsed(t *testing.T, args ...string) v1alpha1.Settings {
	t.Helper()
	var flags captureFlags
	set := pflag.NewFlagSet("capture", pflag.ContinueOnError)
	flags.bind(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := flags.complete(set, testNow); err != nil {
		t.Fatal(err)
	}
	return flags.settings
}

// leaves lists the settings by their paths in the API.
func leaves(path string, v reflect.Value, add func(path string, value any)) {
	if azure, is := v.Interface().(*v1alpha1.AzureSettings); is {
		if azure == nil {
			azure = &v1alpha1.AzureSettings{}
		}
		v = reflect.ValueOf(*azure)
	}
	if _, isDuration := v.Interface().(metav1.Duration); isDuration || v.Kind() != reflect.Struct {
		add(path, v.Interface())
		return
	}
	for i := range v.NumField() {
		leaves(path+"."+v.Type().Field(i).Name, v.Field(i), add)
	}
}

// TestEverySettingHasAFlag: each setting of a policy's captures has a flag of a single capture.
func TestEverySettingHasAFlag(t *testing.T) {
	if diff := cmp.Diff((v1alpha1.Settings{}).Defaulted(), parsed(t)); diff != "" {
		t.Errorf("the flags' defaults are not the API's (-API +flags):\n%s", diff)
	}
	before := map[string]string{}
	leaves("settings", reflect.ValueOf(parsed(t)), func(path string, value any) { before[path] = fmt.Sprintf("%#v", value) })
	all := parsed(t, "--grace-period=1m", "--drain-timeout=1m", "--force", "--profile=bootstrap", "--rules=mine", "--image=mine",
		"--deadline=1m", "--ready-timeout=1m", "--replicas=9", "--volume-initialization-rate=200", "--new-nodes=9", "--keep=9", "--unknown-files=Refuse", "--max-unavailable=2", "--disrupt",
		"--custom-data-from=mine/key", "--afterwards=Remove", "--grow-first=false", "--trial=Off", "--soak=1m", "--trial-timeout=1m", "--trial-ignore-daemonset=a/b", "--trial-job=mine", "--promotion=Manual",
		"--promotion-timeout=1h")
	var untold []string
	leaves("settings", reflect.ValueOf(all), func(path string, value any) {
		if fmt.Sprintf("%#v", value) == before[path] {
			untold = append(untold, path)
		}
	})
	slices.Sort(untold)
	if len(untold) > 0 {
		t.Errorf("no flag of `kamino capture` sets %v", untold)
	}
}
