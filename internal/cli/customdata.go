package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/drive"
	"github.com/kamino-dev/kamino/internal/savedrecipe"
)

// tidyTime is how long a copy that nobody came to use is given to go, by a command that may have been interrupted.
const tidyTime = 5 * time.Second

// readCustomData reads the file that --custom-data names: standard input for "-", and nothing where none is named.
func readCustomData(in io.Reader, path string) ([]byte, error) {
	switch path {
	case "":
		return nil, nil
	case "-":
	default:
		file, err := os.Open(path)
		if err != nil {
			return nil, usagef("--custom-data: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, corev1.MaxSecretSize+1))
	switch {
	case err != nil:
		return nil, usagef("--custom-data: %w", err)
	case len(data) == 0:
		return nil, usagef("--custom-data %s is empty: name the file that the pool's customData was made from", path)
	case len(data) > corev1.MaxSecretSize:
		return nil, usagef("--custom-data %s has more than the %d bytes that a Secret holds", path, corev1.MaxSecretSize)
	case savedrecipe.Encoded(data):
		return nil, usagef("--custom-data %s is in base64, as clouds' APIs take customData, and would be encoded twice when it is given back: decode it first (base64 -d); "+
			"if the recipe does hold it so, put it into a Secret and name that with --custom-data-from", path)
	}
	return data, nil
}

// secrets are those that keep what recipes lose.
func (s *session) secrets() savedrecipe.Secrets {
	return savedrecipe.Secrets{Kube: s.cluster.Kube, Namespace: s.options.Namespace}
}

// copyFor is the copy that is to be kept for the capture: nil if none was given, or if the recipe loses no customData,
// which is said. The refusals are those that giving it back would meet.
func (s *session) copyFor(ctx context.Context, d drive.Decision, given []byte, change *cloud.RecipeChange) (*savedrecipe.Copy, []cloud.Refusal, error) {
	if given == nil || change == nil {
		return nil, nil, nil
	}
	spec := d.Prototype.Spec
	if !savedrecipe.Loses(*change) {
		s.note("This capture takes no customData out of the recipe of pool %s: nothing is kept of --custom-data.", spec.Pool)
		return nil, nil, nil
	}
	refusals, err := savedrecipe.Rehearse(ctx, s.provider, *change, given)
	c := savedrecipe.NewCopy(spec.Pool, given)
	return &c, refusals, err
}

// changeOf is what the capture will do to the recipe.
func (s *session) changeOf(ctx context.Context, p *v1alpha1.Prototype) (cloud.RecipeChange, error) {
	removes := p.Spec.Settings.Defaulted().Generalize.Profile.Traits().RemovesBootstrap
	return s.provider.RecipeChange(ctx, cloud.ImageRef{Pool: cloud.PoolID(p.Spec.PoolID), Version: p.Spec.Version}, removes)
}

// keepCopy is copyFor before a capture. A cloud that can't be asked from here is asked by the controller, which does the work.
func (s *session) keepCopy(ctx context.Context, d drive.Decision, given []byte, h drive.Holder) (*savedrecipe.Copy, error) {
	if given == nil {
		return nil, nil
	}
	change, err := s.changeOf(ctx, d.Prototype)
	var fromCloud *cloud.Error
	if asCloudError(err, &fromCloud) && h.Role == drive.RoleController {
		c := savedrecipe.NewCopy(d.Prototype.Spec.Pool, given)
		return &c, nil
	}
	if err != nil {
		return nil, err
	}
	c, refusals, err := s.copyFor(ctx, d, given, &change)
	if err != nil || len(refusals) == 0 {
		return c, err
	}
	return nil, refusal(fmt.Sprintf("node %s can't be captured", d.Prototype.Spec.Donor.NodeName), refusals)
}

// write has the Prototype of a decision written, with the copy in place before anybody can look for it, and owned by
// the Prototype afterwards. A copy that this command has made and that no Prototype came to use goes again.
func (s *session) write(ctx context.Context, node string, flags *captureFlags, d drive.Decision, c *savedrecipe.Copy) (drive.Decision, error) {
	if c == nil {
		return s.beginning(node, flags).Write(ctx, d)
	}
	made, err := s.secrets().Keep(ctx, *c)
	if err != nil {
		return d, err
	}
	from := &v1alpha1.SecretKey{Name: c.Name}
	flags.settings.Recipe.CustomDataFrom, d.Prototype.Spec.Settings.Recipe.CustomDataFrom = from, from
	written, err := s.beginning(node, flags).Write(ctx, d)
	if err == nil && usesCopy(written.Prototype, c.Name) {
		s.own(ctx, *c, written.Prototype)
		return written, nil
	}
	if made {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		if err := s.secrets().Drop(tidy, *c); err != nil {
			s.note("Secret %s/%s was made, and nothing came to use it: %s.", s.options.Namespace, c.Name, err)
		}
	}
	return written, err
}

func usesCopy(p *v1alpha1.Prototype, name string) bool {
	from := p.Spec.Settings.Recipe.CustomDataFrom
	return from != nil && from.Name == name
}

// own has the copy go with the Prototype. The capture does not need that, so what is in the way is only told.
func (s *session) own(ctx context.Context, c savedrecipe.Copy, p *v1alpha1.Prototype) {
	if err := s.secrets().Own(ctx, c, p); err != nil {
		s.note("The copy of customData is kept, but does not go with Prototype %s: delete Secret %s/%s when the capture has ended (%s).", p.Name, s.options.Namespace, c.Name, err)
	}
}

// sameCopy goes on with a capture that is in flight, which must be one for the same copy: nobody can change its settings.
func (s *session) sameCopy(ctx context.Context, p *v1alpha1.Prototype, given []byte) error {
	if given == nil {
		return nil
	}
	c := savedrecipe.NewCopy(p.Spec.Pool, given)
	if !usesCopy(p, c.Name) {
		return refusedf("node %s is being captured already by Prototype %s, which keeps no such copy of customData, and nothing was changed: "+
			"leave --custom-data out to follow it, or stop it with `kamino cancel %s`", p.Spec.Donor.NodeName, p.Name, p.Name)
	}
	s.own(ctx, c, p)
	return nil
}
