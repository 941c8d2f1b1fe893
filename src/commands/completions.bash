
# Offers files for paths, and the names of the keyring for keys. All else is left to the function above.
_phalanx_values() {
    local word path="" cur="$2" prev="$3" what=""
    # Of --key=NAME bash makes three words.
    if [[ "$prev" == "=" ]]; then
        prev="${COMP_WORDS[COMP_CWORD-2]}"
    fi
    # The command as far as it is named.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$word" in
            -*) ;;
            *)
                path+=" $word"
                case "$path" in
                    @groups@) ;;
                    *) break ;;
                esac
                ;;
        esac
    done
    case "$prev" in
        @keys@) what=keys ;;
        @paths@) what=paths ;;
        @folders@) what=folders ;;
        @others@) ;;
        *)
            if [[ "$cur" != -* ]]; then
                case "$path " in
                    @of_keys@) what=keys ;;
                    @of_paths@) what=paths ;;
                esac
            fi
            ;;
    esac
    COMPREPLY=()
    case "$what" in
        keys)
            # Not by compgen, which would expand what a name contains.
            while IFS= read -r word; do
                [[ "$word" == "$cur"* ]] && COMPREPLY+=("$word")
            done < <(@names@)
            ;;
        paths) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        folders) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
        *) _phalanx "$@" ;;
    esac
    if [[ "$what" == paths || "$what" == folders ]]; then
        compopt -o filenames 2>/dev/null
    fi
    return 0
}

complete -F _phalanx_values -o bashdefault -o default phalanx
