package cli

import (
	"bufio"
	"cmp"
	"context"

	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/savedrecipe"
)

const restoreHelp = `Give the pool's recipe back what it lost when it was pointed at a version: the generic image that it named, the
extensions that bootstrap a node, with their settings, and customData. It was kept in a Secret of Kamino's namespace
before the promotion. Without a version or a Prototype the latest one counts.

What the cloud gives out to nobody was not kept. On Azure that is customData, unless the capture was told of a copy
(--custom-data-from), and the protected settings of an extension. Give each by the name of a Secret in Kamino's
namespace; what is not given is named, and refuses the command unless --incomplete leaves it out: nodes that are built
without it may never join.

What would change is shown first, and whoever sits at a terminal is asked. What the recipe got since stays as it is.
Nodes that run are not touched; a pool whose upgrade policy would change them is refused, and so is one of which a
capture is in flight. Suspend a policy of the pool first: its next capture takes out again what came back.`

type restoreFlags struct {
	changeFlags
	version, prototype string
	customData         string
	protected          []string
	incomplete, yes    bool
}

func newRestoreCommand(f *Factory, o *Options) *cobra.Command {
	flags := &restoreFlags{}
	cmd := &cobra.Command{
		Use:   "restore POOL",
		Short: "Give a pool's recipe back what it lost with its first version",
		Long:  restoreHelp,
		Example: `  kamino restore pool1 --dry-run
  kamino restore pool1 --custom-data-from pool1-custom-data --protected-settings-from vmssCSE=pool1-cse`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completePools(f, o),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.complete(false); err != nil {
				return err
			}
			if flags.version != "" && flags.prototype != "" {
				return usagef("--version and --prototype name the same thing: give one of them")
			}
			s, err := open(cmd.Context(), f, o)
			if err != nil {
				return err
			}
			return s.restore(cmd.Context(), args[0], flags)
		},
	}
	flags.bind(cmd)
	cmd.Flags().StringVar(&flags.version, "version", "", "what was lost with this `version`")
	cmd.Flags().StringVar(&flags.prototype, "prototype", "", "what was lost with the promotion of this `Prototype`, which may be gone")
	cmd.Flags().StringVar(&flags.customData, "custom-data-from", "", "`SECRET[/KEY]` in Kamino's namespace that holds customData (key: customData)")
	cmd.Flags().StringSliceVar(&flags.protected, "protected-settings-from", nil, "`EXTENSION=SECRET[/KEY]` in Kamino's namespace that holds its protected settings, as JSON (key: protectedSettings)")
	cmd.Flags().BoolVar(&flags.incomplete, "incomplete", false, "leave out what nobody gives")
	cmd.Flags().BoolVarP(&flags.yes, "yes", "y", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("version", func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return completeVersions(f, o, cmd, args, prefix)
	})
	return cmd
}

func (s *session) restore(ctx context.Context, name string, flags *restoreFlags) error {
	p, h, err := s.lookBack(ctx, name)
	if err != nil {
		return err
	}
	restorer, able := cloud.As[cloud.Restorer](s.provider)
	if !able {
		return refusedf("this cloud can't give a recipe back what it lost, and nothing was changed")
	}
	secrets := savedrecipe.Secrets{Kube: s.cluster.Kube, Namespace: s.options.Namespace}
	all, err := secrets.Find(ctx, h.Pool, p.id, p.prototypes)
	if err != nil {
		return err
	}
	found, err := s.pick(h.Pool, all, flags)
	if err != nil {
		return err
	}
	saved := cloud.Saved{Backup: found.Backup}
	if saved.Given, err = s.given(ctx, found, flags); err != nil {
		return err
	}
	change, err := restorer.RestoreChange(ctx, p.id, saved)
	if err != nil {
		return err
	}
	r := print.Restore{
		Pool: h.Pool, Secret: s.options.Namespace + "/" + found.Secret, SavedAt: found.SavedAt, Prototype: found.Prototype, Version: found.Version,
		Change: change, DryRun: flags.dryRun, Refusals: slices.Concat(h.RefuseRestore(), change.Refusals),
	}
	for _, other := range all {
		if other.Secret != found.Secret {
			r.Others = append(r.Others, other.Secret)
		}
	}
	if !flags.incomplete {
		r.Refusals = append(r.Refusals, missingParts(change, s.options.Namespace)...)
	}
	if err := s.carryRestore(ctx, &r, flags); err != nil {
		return err
	}
	return print.WriteRestore(s.Out, flags.format, r)
}

// carryRestore does it, unless something is in the way or nothing is to be done.
func (s *session) carryRestore(ctx context.Context, r *print.Restore, flags *restoreFlags) error {
	if len(r.Refusals) > 0 {
		if err := print.WriteRestore(s.Out, flags.format, *r); err != nil {
			return err
		}
		return refusal(fmt.Sprintf("pool %s can't be given back what its recipe lost", r.Pool), r.Refusals)
	}
	if r.Change.Done || flags.dryRun {
		return nil
	}
	if !flags.yes && s.Asks != nil && s.Asks() {
		_, _ = fmt.Fprintf(s.Err, "%s\nGo on? [y/N] ", strings.Join(print.RestorePlan(*r), "\n"))
		answer, _ := bufio.NewReader(s.In).ReadString('\n')
		if yes := strings.ToLower(strings.TrimSpace(answer)); yes != "y" && yes != "yes" {
			return refusedf("not done, and nothing was changed: --yes does it without a question")
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	next := &r.Change
	for try := 1; next != nil; try++ {
		if try > 1 {
			if err := pause(ctx, writeTempo); err != nil {
				return err
			}
		}
		var err error
		if next, err = savedrecipe.Try(ctx, s.provider, *next); err != nil {
			return fmt.Errorf("the recipe of pool %s is not restored: %w", r.Pool, err)
		}
		if next != nil && try == savedrecipe.Tries {
			return fmt.Errorf("the recipe of pool %s is not restored: somebody changed the pool each time; run the same command again", r.Pool)
		}
	}
	r.Changed = true
	return nil
}

// pick is the saved recipe that is meant.
func (s *session) pick(pool string, all []savedrecipe.Found, flags *restoreFlags) (savedrecipe.Found, error) {
	i := slices.IndexFunc(all, func(f savedrecipe.Found) bool {
		return (flags.prototype == "" || f.Prototype == flags.prototype) &&
			(flags.version == "" || f.Version != "" && imageversion.Compare(f.Version, flags.version) == 0)
	})
	switch {
	case len(all) == 0:
		return savedrecipe.Found{}, refusedf("nothing that the recipe of pool %s lost is kept in namespace %s, and nothing was changed: a promotion keeps it there before it takes it out", pool, s.options.Namespace)
	case i < 0:
		var names []string
		for _, f := range all {
			names = append(names, f.Secret)
		}
		return savedrecipe.Found{}, refusedf("nothing is kept that the recipe of pool %s lost with %s, and nothing was changed: there are %s", pool, cmp.Or(flags.prototype, flags.version), strings.Join(names, ", "))
	case all[i].Doubt != "":
		return savedrecipe.Found{}, refusedf("secret %s/%s is not what was saved, and nothing was changed: %s", s.options.Namespace, all[i].Secret, all[i].Doubt)
	}
	return all[i], nil
}

// given is what a person gives of what the cloud gave out to nobody: by name, so that no content stands in an argument.
func (s *session) given(ctx context.Context, found savedrecipe.Found, flags *restoreFlags) (map[string][]byte, error) {
	given := map[string][]byte{}
	if found.CustomData != nil {
		given[savedrecipe.CustomDataKey] = found.CustomData
	}
	if flags.customData != "" {
		content, err := s.secretText(ctx, flags.customData, savedrecipe.CustomDataKey)
		if err != nil {
			return nil, err
		}
		given[savedrecipe.CustomDataKey] = content
	}
	for _, text := range flags.protected {
		extension, secret, named := strings.Cut(text, "=")
		if !named || extension == "" || secret == "" {
			return nil, usagef("--protected-settings-from %s: name an extension and a Secret, as in vmssCSE=pool1-cse", text)
		}
		content, err := s.secretText(ctx, secret, "protectedSettings")
		if err != nil {
			return nil, err
		}
		given["extension "+extension] = content
	}
	return given, nil
}

// secretText is the content of SECRET[/KEY] in Kamino's namespace.
func (s *session) secretText(ctx context.Context, name, key string) ([]byte, error) {
	name, named, isNamed := strings.Cut(name, "/")
	if isNamed {
		key = named
	}
	secret, err := s.cluster.Kube.CoreV1().Secrets(s.options.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, refusedf("there is no Secret %s/%s, and nothing was changed: create it", s.options.Namespace, name)
	case err != nil:
		return nil, err
	case len(secret.Data[key]) == 0:
		return nil, refusedf("there is no key %s in Secret %s/%s, and nothing was changed: write it, or name another one as %s/KEY", key, s.options.Namespace, name, name)
	}
	return secret.Data[key], nil
}

// partMissing: a part that was lost was not saved, and nobody gives it.
const partMissing = "PartMissing"

// missingParts say where each part is to be given.
func missingParts(change cloud.RecipeChange, namespace string) []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, part := range change.Missing {
		flag := "--custom-data-from SECRET[/KEY]"
		if part.Kind != savedrecipe.CustomDataKey {
			flag = fmt.Sprintf("--protected-settings-from %s=SECRET[/KEY]", part.Name)
		}
		refusals = append(refusals, cloud.Refuse(partMissing,
			fmt.Sprintf("the cloud never gave out all of %s, and nodes that are built without it may never join", part.Says()),
			fmt.Sprintf("put it into a Secret of namespace %s and name that with %s, or leave it out with --incomplete", namespace, flag)))
	}
	return refusals
}
