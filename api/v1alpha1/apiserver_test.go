package v1alpha1_test

import (
	"os"
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }
