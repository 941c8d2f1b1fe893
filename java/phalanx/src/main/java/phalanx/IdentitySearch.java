package phalanx;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;

/** The search for an identity that opens a file, within bounds: docs/format.md, section 4. */
final class IdentitySearch {
    /** How many pairs of an identity and a stanza that may be for it are tried. */
    private static final int MOST_TRIALS = 4096;
    /** How many stanzas are tried for one SSH key. They have its tag, so honest files have one. */
    private static final int MOST_SSH_TRIALS = 16;

    private final Map<Integer, AgeFile> files;
    private final List<KeyException> refused;
    private final BiFunction<AgeIdentity, AgeFile, Optional<FileKeys>> unwrap;
    private int left = MOST_TRIALS;

    /** What is refused, and why, is added to the list. */
    IdentitySearch(
            Map<Integer, AgeFile> files, List<KeyException> refused,
            BiFunction<AgeIdentity, AgeFile, Optional<FileKeys>> unwrap) {
        this.files = files;
        this.refused = refused;
        this.unwrap = unwrap;
    }

    /** Identities without a question to the user come first. */
    Optional<Header.Opened> search(KeyProvider keys, List<AgeIdentity> identities) {
        int before = refused.size();
        Optional<Header.Opened> opened = firstOf(keys, identities);
        if (opened.isEmpty() && refused.size() == before) {
            keys.whyNoIdentity().map(KeyException::new).ifPresent(refused::add);
        }
        return opened;
    }

    private Optional<Header.Opened> firstOf(KeyProvider keys, List<AgeIdentity> identities) {
        for (boolean asks : new boolean[] {false, true}) {
            for (AgeIdentity identity : identities) {
                Optional<Header.Opened> opened =
                        identity.hasPassphrase() == asks && left >= 0 ? opened(identity) : Optional.empty();
                if (opened.isPresent()) {
                    keys.opened(identity);
                    return opened;
                }
            }
        }
        return Optional.empty();
    }

    private Optional<Header.Opened> opened(AgeIdentity identity) {
        return identity.isLockedFile() ? openedByFile(identity) : openedByKey(identity);
    }

    /** Such a file holds no SSH keys, so nobody is asked for its passphrase if only these could help. */
    private Optional<Header.Opened> openedByFile(AgeIdentity locked) {
        if (files.values().stream().allMatch(AgeFile::isOnlyForSsh)) {
            return Optional.empty();
        }
        try {
            return locked.inside().stream().takeWhile(each -> left >= 0).map(this::openedByKey).flatMap(Optional::stream).findFirst();
        } catch (KeyException e) {
            refused.add(e);
            return Optional.empty();
        }
    }

    private Optional<Header.Opened> openedByKey(AgeIdentity identity) {
        int leftOfSsh = identity.kind() instanceof SshKind ? MOST_SSH_TRIALS : Integer.MAX_VALUE;
        for (Map.Entry<Integer, AgeFile> file : files.entrySet()) {
            int trials = file.getValue().stanzasFor(identity);
            leftOfSsh -= trials;
            if (trials == 0) {
                continue;
            }
            if (leftOfSsh < 0) {
                refused.add(new KeyException(
                        identity.label() + ": no more than " + MOST_SSH_TRIALS + " stanzas for one SSH key were tried"));
                return Optional.empty();
            }
            try {
                identity.unlock();
            } catch (KeyException e) {
                refused.add(e);
                return Optional.empty();
            }
            left -= trials;
            if (left < 0) {
                refused.add(new KeyException("no more than " + MOST_TRIALS + " pairs of an identity and a stanza were tried"));
                return Optional.empty();
            }
            Optional<FileKeys> found = unwrap.apply(identity, file.getValue());
            if (found.isPresent()) {
                return Optional.of(new Header.Opened(found.get(), file.getKey()));
            }
        }
        return Optional.empty();
    }
}
